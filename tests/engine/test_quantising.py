import numpy as np
import pytest
import torch

import quorate
from quorate.cli import main
from quorate.data import load
from quorate.engine import Committee, InputSpec
from quorate.engine.quantising import compare_precisions, quantise_bundle, with_policy_in
from quorate.nets import DARTS_V1, DARTS_V2, attach_exits, cascade
from quorate.squad import Confidence, Rule, Static
from quorate.store.bundle import read_bundle
from quorate.train.committee import build_learners, train_committee
from quorate.train.config import Training


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    torch.manual_seed(0)
    images, labels = torch.rand(300, 1, 8, 8), torch.arange(300) % 2
    images[labels == 1, :, :4] *= 0.3
    learners = []
    for _ in range(2):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(128, 2),
        )  # fmt: skip
        learner = attach_exits(model, exits=["1"], classes=2, sample=images[:2])
        optimiser = torch.optim.Adam(learner.parameters(), 0.01)
        for _ in range(25):
            optimiser.zero_grad()
            sum(torch.nn.functional.cross_entropy(z, labels) for z in learner((images - 0.5) / 0.3)).backward()
            optimiser.step()
        learners.append(learner)
    path = tmp_path_factory.mktemp("quantised") / "float32"
    spec = InputSpec(8, 8, 1, (0.5,), (0.3,))
    Committee(learners, Rule("mean", 0.7), classes=["bright", "dark"], inputs=spec).export(path)
    return path, images.numpy(), labels.numpy()


@pytest.fixture(scope="module")
def eight(shipped, tmp_path_factory):
    path, images, _ = shipped
    out = tmp_path_factory.mktemp("quantised") / "int8"
    seen = []
    quantise_bundle(path, out, images[:100], tick=lambda what, done, total: seen.append((done, total)))
    assert seen == [(i, 4) for i in range(1, 5)]
    return out


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
def test_eight_bits_say_nearly_what_thirty_two_say(shipped, eight, backend):
    path, images, labels = shipped
    plain = quorate.load(path, backend=backend, threads=1).with_policy(Static())
    small = quorate.load(eight, backend=backend, threads=1).with_policy(Static())
    ours, theirs = small.record(images, labels).probs, plain.record(images, labels).probs
    assert 0 < np.abs(ours - theirs).max() < 0.2
    assert np.abs(ours - theirs).mean() < 0.02
    assert (ours.argmax(-1) == theirs.argmax(-1)).mean() > 0.97


def test_the_graphs_do_compute_in_eight_bits(eight):
    import onnx

    about = read_bundle(eight).about
    assert (about["precision"], about["calibrated_on"]) == ("int8", 100)
    graph = onnx.load(eight / "branch_0_0.onnx").graph
    assert {node.op_type for node in graph.node} >= {"QuantizeLinear", "DequantizeLinear"}
    assert onnx.TensorProto.INT8 in {weights.data_type for weights in graph.initializer}


def test_the_policy_is_another_one_and_the_comparison_is_of_both(shipped, eight, tmp_path):
    path, images, labels = shipped
    with_policy_in(eight, tmp_path / "other", Confidence(1, 0.8), {"note": "tuned again"})
    small, plain = quorate.load(tmp_path / "other", threads=1), quorate.load(path, threads=1)
    assert small.policy == Confidence(1, 0.8)
    assert read_bundle(tmp_path / "other").about["note"] == "tuned again"
    sides = compare_precisions(plain, small, images, labels, batches=[1, 8], rounds=1, calls=8)
    assert sides.float32.agreement == 1
    assert sides.int8.accuracy == (small(images).label == labels).mean()
    assert sides.int8.agreement == (small(images).label == plain(images).label).mean()
    assert set(sides.int8.milliseconds) == {1, 8}
    assert min(sides.int8.milliseconds.values()) > 0
    assert sides.as_json()["recommended"] is sides.recommended


def test_what_cannot_be_quantised_is_refused(shipped, eight, tmp_path):
    path, images, _ = shipped
    with pytest.raises(ValueError, match="is a quantised bundle already"):
        quantise_bundle(eight, tmp_path / "again", images)
    with pytest.raises(ValueError, match="must hold at least one"):
        quantise_bundle(path, tmp_path / "none", images[:0])
    with pytest.raises(ValueError, match="must be a new or an empty folder"):
        quantise_bundle(path, eight, images[:3])
    assert list(tmp_path.iterdir()) == []


def test_whole_models_are_quantised_too(tmp_path):
    torch.manual_seed(0)
    committee = Committee([cascade([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)])], Static(), [[12], [12]])
    committee.export(tmp_path / "float32", sample=torch.zeros(1, 4))
    x = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    quantise_bundle(tmp_path / "float32", tmp_path / "int8", x)
    small = quorate.load(tmp_path / "int8", threads=1)
    np.testing.assert_allclose(small(x).probs, committee(x).probs, atol=0.1)


def test_a_run_is_exported_in_eight_bits_and_its_policy_tuned_on_them(tmp_path, capsys):
    learners = build_learners([DARTS_V2, DARTS_V1], channels=2, cells=3)
    train_committee(
        learners, load("digits"), Training(epochs=1, batch=256), tmp_path / "run", threads=1, about={"data": "digits"}
    )
    arguments = ["export", str(tmp_path / "run"), str(tmp_path / "int8"), "--int8", "--max-drop", "5"]
    assert main([*arguments, "--samples", "100", "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "100 test images" in said
    assert "recommended here" in said
    about = read_bundle(tmp_path / "int8").about
    assert about["tuned"]["wish"]["max_drop"] == 5
    assert about["compared"]["samples"] == 100
    assert main(["info", str(tmp_path / "int8")]) == 0
    assert "int8" in capsys.readouterr().out
    assert main([*arguments, "--policy", "p.json"]) == 2
