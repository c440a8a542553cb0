import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import quorate
from quorate.engine import Committee
from quorate.engine.networks import Stop, Stopped
from quorate.errors import QuorateError
from quorate.nets import cascade
from quorate.squad import Confidence, Rule, Static
from tests.engine.learners import tiny_committee
from tests.engine.test_bundle import put
from tests.engine.test_committee import assert_agrees
from tests.readme import ROOT


@pytest.fixture(scope="module")
def committee():
    learners, macs = tiny_committee(0, [2, 1, 2])
    return Committee(learners, Rule("mean", 0.6), macs, classes=["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def shipped(committee, tmp_path_factory):
    path = tmp_path_factory.mktemp("shipped") / "bundle"
    committee.export(path, sample=torch.randn(2, 5))
    return path


@pytest.mark.parametrize("source", ["lazy", "eager", "parallel"])
def test_openvino_answers_as_torch_does(committee, shipped, source):
    loaded = quorate.load(shipped, backend="openvino", source=source, threads=1)
    assert loaded.networks.backend == "openvino"
    for n in (1, 2, 37):
        images = torch.randn(n, 5, generator=torch.Generator().manual_seed(n))
        votes = committee.record(images, np.zeros(n))
        if source == "lazy":
            for policy in (Rule("mean", 0.6), Rule(threshold=0.3), Static(), Confidence(2, 0.5)):
                assert_agrees(loaded.with_policy(policy)(images.numpy()), votes, policy)
        else:
            np.testing.assert_allclose(
                loaded.with_policy(Static())(images.numpy()).probs,
                committee.with_policy(Static())(images).probs,
                atol=1e-5,
            )


def test_batches_are_cut_and_joined(shipped):
    networks = quorate.load(shipped, backend="openvino", threads=1).networks
    state = (np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32),)
    whole, _ = networks.run(0, 0, state)
    parts = [networks.run(0, 0, networks.take(state, np.array(rows)))[0] for rows in ([4, 1], [0])]
    np.testing.assert_allclose(networks.join(parts)[0], whole[0][[4, 1, 0]], atol=1e-6)


def test_a_run_that_was_told_to_stop_before_does_not_begin(shipped):
    stop = Stop()
    stop.request()
    for backend in ("openvino", "onnxruntime"):
        networks = quorate.load(shipped, backend=backend, threads=1).networks
        with pytest.raises(Stopped):
            networks.run_until(0, 0, (np.zeros((1, 5), np.float32),), stop)


def test_inputs_by_name(tmp_path):
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, a, b):
            return self.linear(a + b)

    torch.manual_seed(0)
    committee = Committee([cascade([Sum()], classes=3, inputs=["a", "b"])], Static(), [[1]])
    committee.export(tmp_path / "bundle", sample={"a": torch.zeros(1, 4), "b": torch.zeros(1, 4)})
    loaded = quorate.load(tmp_path / "bundle", backend="openvino", threads=1)
    given = {"b": torch.randn(9, 4), "a": torch.randn(9, 4)}
    np.testing.assert_allclose(loaded(given).probs, committee(given).probs, atol=1e-5)
    with pytest.raises(ValueError, match="learner 0 reads a, b, got tensors named a, c"):
        loaded({"a": torch.zeros(1, 4), "c": torch.zeros(1, 4)})


def test_what_openvino_cannot_run_is_refused_in_one_line(shipped, tmp_path):
    bundle = Path(shutil.copytree(shipped, tmp_path / "bundle"))
    put(bundle, "branch_1_0.onnx", b"not a graph")
    with pytest.raises(QuorateError, match="branch_1_0.onnx: is no graph that this OpenVINO can run") as caught:
        quorate.load(bundle, backend="openvino", threads=1)
    assert "\n" not in str(caught.value)
    put(bundle, "branch_1_0.onnx", (bundle / "branch_0_0.onnx").read_bytes())
    with pytest.raises(QuorateError, match="branch_1_0.onnx: reads .*, the branch before it gives"):
        quorate.load(bundle, backend="openvino", threads=1)


def test_without_the_runtime_the_error_names_the_package(shipped, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'quorate\[openvino\]'"):
        quorate.load(shipped, backend="openvino")


LEAVING = """
import sys
import numpy as np
import quorate
from quorate.squad import Static
committee = quorate.load(sys.argv[1], backend=sys.argv[2], source="parallel").with_policy(Static())
committee(np.zeros((1, 5), np.float32))
committee(np.zeros((200_000, 5), np.float32), deadline_ms=1)
"""


@pytest.mark.parametrize("backend", ["openvino", "onnxruntime"])
def test_a_process_may_end_while_branches_run(shipped, backend):
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LEAVING, str(shipped), backend],
        capture_output=True, text=True, check=False, timeout=60, cwd=ROOT,
    )  # fmt: skip
    assert (run.returncode, run.stderr) == (0, "")
