"""Networks nobody here wrote. One of timm and one of transformers run always, the rest with the heavy tests."""

import warnings

import pytest
import torch

from quorate.nets import attach_exits, cascade, count_macs, import_vision

pytestmark = pytest.mark.filterwarnings("ignore")
IMAGES = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def package(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return import_vision(name)
        except ModuleNotFoundError as error:
            pytest.skip(f"{error.name} is not installed")


def torchvision(name, **options):
    return getattr(package("torchvision.models"), name)(**options)


def timm(name, **options):
    return package("timm").create_model(name, **options)


def transformers(kind, config, **options):
    library = package("transformers")
    return getattr(library, kind)(getattr(library, config)(**options))


SMALL = {"hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 64}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
heavy = pytest.mark.heavy
CASES = [
    pytest.param(
        lambda: timm("convnext_atto", num_classes=10), ["stages.0", "stages.1", "stages.2"], id="timm ConvNeXt"
    ),
    pytest.param(
        lambda: transformers("ViTForImageClassification", "ViTConfig", image_size=64, num_labels=10, **SMALL),
        ["vit.layers.0", "vit.layers.2"],
        id="transformers ViT",
    ),
    pytest.param(
        lambda: torchvision("resnet18", num_classes=10), ["layer1.0", "layer1", "layer2", "layer3.1.bn2"],
        id="torchvision ResNet-18", marks=heavy,
    ),
    pytest.param(
        lambda: torchvision("mobilenet_v3_small", num_classes=10), ["features.3", "features.8"],
        id="torchvision MobileNetV3", marks=heavy,
    ),
    pytest.param(
        lambda: torchvision("densenet121", num_classes=10), ["features.denseblock1", "features.denseblock2"],
        id="torchvision DenseNet", marks=heavy,
    ),
    pytest.param(
        lambda: timm("vit_tiny_patch16_224", img_size=64, num_classes=10), ["blocks.2", "blocks.5"],
        id="timm ViT", marks=heavy,
    ),
    pytest.param(
        lambda: timm("efficientnet_b0", num_classes=10), ["blocks.1", "blocks.3"], id="timm EfficientNet", marks=heavy
    ),
    pytest.param(
        lambda: transformers("ResNetForImageClassification", "ResNetConfig", num_labels=10, **RESNET),
        ["resnet.encoder.stages.0", "resnet.encoder.stages.2"], id="transformers ResNet", marks=heavy,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("build", "exits"), CASES)
def test_networks_of_others_are_cut(build, exits):
    torch.manual_seed(0)
    model = build().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learner = attach_exits(model, exits, classes=10, sample=IMAGES)
    assert learner.num_exits == len(exits) + 1
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    others = torch.randn(3, 3, 64, 64)
    with torch.no_grad():
        wanted = model(others)
        wanted = wanted if isinstance(wanted, torch.Tensor) else wanted.logits
        logits = learner(others)
        assert torch.allclose(logits[-1], wanted, atol=1e-5)
        state = (others,)
        for branch, whole in zip(learner.branches, logits, strict=True):
            *state, vote = branch(*state)
            assert torch.allclose(vote, whole[-len(vote) :], atol=1e-4)
            state = [tensor[-1:] for tensor in state]
    (alone,) = count_macs(cascade([model], classes=10), IMAGES)
    macs = count_macs(learner, IMAGES)
    assert all(count > 0 for count in macs)
    heads = sum(b.head.linear.weight.numel() for b in learner.branches[:-1])
    assert sum(macs) == alone + heads
    learner.train()
    sum(out.sum() for out in learner(others)).backward()
    assert all(p.grad is not None for p in learner.parameters() if p.requires_grad)


@pytest.mark.heavy
def test_a_head_of_another_width_is_replaced():
    model = timm("convnext_atto", num_classes=7).eval()
    learner = attach_exits(model, ["stages.1"], classes=4, sample=IMAGES, freeze=True)
    assert learner(IMAGES)[-1].shape == (2, 4)
    assert model(IMAGES).shape == (2, 7)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["ViTModel", "ResNetModel"])
def test_backbones_without_a_head_get_one(kind):
    options = {"image_size": 64, **SMALL} if kind == "ViTModel" else RESNET
    model = transformers(kind, kind.replace("Model", "Config"), **options).eval()
    exit_ = "layers.1" if kind == "ViTModel" else "encoder.stages.1"
    learner = attach_exits(model, [exit_], classes=5, sample=IMAGES)
    assert [logits.shape for logits in learner(IMAGES)] == [(2, 5), (2, 5)]


@pytest.mark.heavy
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_classifier_of_texts(attention):
    """Token ids and a mask, by name and by position; any mask, whatever the sample's was."""
    torch.manual_seed(0)
    model = transformers(
        "BertForSequenceClassification",
        "BertConfig",
        vocab_size=99,
        num_labels=4,
        attn_implementation=attention,
        **SMALL,
    ).eval()
    ids, mask = torch.randint(0, 99, (3, 12)), torch.ones(3, 12, dtype=torch.long)
    exits = ["bert.encoder.layer.0", "bert.encoder.layer.2"]
    for sample in ({"input_ids": ids, "attention_mask": mask}, (ids, mask)):
        learner = attach_exits(model, exits, classes=4, sample=sample, token="first")
        padded = mask.clone()
        padded[1, 7:] = 0
        padded[2, 3:] = 0
        for given in (mask, padded):
            inputs = dict(zip(sample, (ids, given), strict=True)) if isinstance(sample, dict) else (ids, given)
            with torch.no_grad():
                assert torch.allclose(learner(inputs)[-1], model(ids, given).logits, atol=1e-5)
        assert len(count_macs(learner, sample)) == 3
