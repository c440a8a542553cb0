"""Networks that users bring: named, loaded, cut, and refused in words where that cannot be."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from quorate.data import from_arrays
from quorate.errors import QuorateError
from quorate.nets import import_vision, timm_model
from quorate.recipes.models import bring, load_into, side_read
from tests.train.cases import toy

SIDE = 32
OWN = """
import torch
from torch import nn
from quorate.nets import attach_exits

def build(classes, side):
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(1 if i == 0 else 4, 4, 3, padding=1), nn.ReLU()) for i in range(4)]
    return nn.Sequential(*blocks, nn.Flatten(), nn.Linear(4 * side * side, classes))

def learner(classes):
    return attach_exits(build(classes, 8), exits=["1"], classes=classes, sample=torch.zeros(2, 1, 8, 8))

def nothing():
    return 5

def untouched(hidden=4):
    return build(2, 8)
"""


def colours(side=SIDE, classes=3):
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (30, side, side, 3), generator=rng, dtype=torch.uint8).numpy()
    return from_arrays("colours", images, [k % classes for k in range(30)])


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


def test_a_model_of_timm_with_weights_from_a_file(tmp_path):
    torch.manual_seed(0)
    trained = timm_model("resnet10t", classes=1000)  # its classifier has other classes than ours
    save_file(trained.state_dict(), tmp_path / "w.safetensors")
    torch.save({"state_dict": trained.state_dict()}, tmp_path / "w.pth")
    for file in ("w.safetensors", "w.pth"):
        brought = bring("timm:resnet10t@layer1,layer2", colours(), str(tmp_path / file))
        state = brought.learner.state_dict()
        first = next(tensor for name, tensor in state.items() if name.endswith("conv1.0.weight"))
        assert torch.equal(first, trained.state_dict()["conv1.0.weight"])
        assert (brought.learner.num_exits, brought.learner.classes, brought.source) == (3, 3, file)
        assert brought.spec.mean == pytest.approx((0.485, 0.456, 0.406))
        assert brought.learner.origin["exits"] == ["layer1", "layer2"]


def test_without_weights_it_begins_from_chance_only_when_told(monkeypatch):
    assert bring("timm:resnet10t@layer1", colours(), "none").source == "none"
    timm = import_vision("timm")
    usual = timm.create_model

    def offline(name, pretrained=False, **options):
        if pretrained:
            raise OSError("the hub cannot be reached")
        return usual(name, **options)

    monkeypatch.setattr(timm, "create_model", offline)
    with pytest.raises(QuorateError, match=r"weights of timm:resnet10t are neither in the cache .* --weights FILE"):
        bring("timm:resnet10t@layer1", colours())
    assert bring("timm:resnet10t@layer1", colours(), pretrain=False).source == "none"  # trained ones will replace them


def test_a_function_in_a_file(own):
    brought = bring(f"{own}:build", toy())
    assert brought.learner.num_exits == 3  # places found by cost
    assert brought.spec.channels == 1
    assert bring(f"{own}:build@1", toy()).learner.num_exits == 2
    assert bring(f"{own}:learner", toy()).learner.num_exits == 2
    assert bring(f"{own}:untouched@0", toy()).learner.num_exits == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nowhere_to_be_found\n", "mine.py, line 1: raises ModuleNotFoundError: No module named"),
        ("def build(:\n", "mine.py: raises SyntaxError"),
        ("def build(classes):\n    return undefined\n", "mine.py, line 2: raises NameError"),
    ],
)
def test_what_goes_wrong_in_the_users_file_is_said_as_theirs(tmp_path, text, said):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(QuorateError, match=said):
        bring(f"{tmp_path}/mine.py:build@1", toy())


def test_a_file_may_hold_dataclasses(tmp_path):
    text = (
        "from __future__ import annotations\nimport dataclasses\n\n@dataclasses.dataclass\nclass Size:\n    side: int\n"
    )
    (tmp_path / "sizes.py").write_text(text + OWN)
    assert bring(f"{tmp_path}/sizes.py:build@1", toy()).learner.num_exits == 2


def test_weights_into_a_network_of_ones_own(own, tmp_path):
    network = nn.Sequential(nn.Linear(4, 3))
    torch.save({"0.weight": torch.ones(3, 4), "0.bias": torch.zeros(3)}, tmp_path / "w.pt")
    assert load_into(network, tmp_path / "w.pt", 3) == "w.pt"
    assert (network[0].weight == 1).all()


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"0.weight": torch.ones(5, 7), "0.bias": torch.zeros(5)}, "0.weight has another shape"),
        ({"0.weight": torch.ones(5, 4)}, "0.bias is missing"),
        ({"0.weight": torch.ones(5, 4), "0.bias": torch.zeros(5), "x": torch.zeros(1)}, "x is not of this network"),
        ([1, 2], "holds no state dict"),
    ],
)
def test_weights_of_another_network_are_refused(tmp_path, state, said):
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(QuorateError, match=said):
        load_into(nn.Sequential(nn.Linear(4, 5)), tmp_path / "w.pt", 3)


def test_weights_that_would_execute_are_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (print, ("executed",))

    torch.save({"0.weight": Evil()}, tmp_path / "w.pt")
    with pytest.raises(QuorateError, match="cannot be read as weights"):
        load_into(nn.Linear(2, 2), tmp_path / "w.pt", 2)
    (tmp_path / "cut.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{")
    with pytest.raises(QuorateError, match="cannot be read as weights"):
        load_into(nn.Linear(2, 2), tmp_path / "cut.safetensors", 2)


@pytest.mark.parametrize(
    ("model", "weights", "said"),
    [
        ("resnet18", None, "model must be timm:NAME or FILE.py:FUNCTION"),
        ("timm:", None, "model must be timm:NAME"),
        ("timm:resnet19", "none", "did you mean"),
        ("timm:resnet10t", "/nowhere.pth", "there is no such file"),
        ("timm:resnet10t@nowhere", "none", "nowhere"),
        ("/nowhere.py:build", None, "no such file"),
        ("{own}:build", "pretrained", "decides itself"),
        ("{own}:missing", None, "has no function missing; it has .*build"),
        ("{own}:nothing", None, "must give a network .* or a learner, got int"),
        ("{own}:learner@1", None, "gives a learner, which has its exits already"),
    ],
)
def test_what_cannot_be_brought_is_told(own, model, weights, said):
    data = toy() if "{own}" in model else colours()
    with pytest.raises(ValueError, match=said):
        bring(model.replace("{own}", str(own)), data, weights)


def test_the_side_a_model_reads():
    assert side_read("timm:vit_tiny_patch16_224@blocks.3") == 224
    assert side_read("mine.py:build") == 0
