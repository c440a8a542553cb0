"""One body of code for every kind of array: the same decisions, and the kind that was given comes back."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from quorate.squad import Confidence, Recorded, Rule, Static, drive, replay, stages
from quorate.squad.fused import conclude, examine, first_passing
from quorate.squad.protocol import Lattice
from tests.squad.test_rule import same

MACS = np.array([[3.0, 1.0, 2.0], [1.0, 1.0, 5.0]])


def votes(n=300, dtype=torch.float32):
    logits = torch.randn(2, 3, n, 5, generator=torch.Generator().manual_seed(3)) * 2
    return torch.softmax(logits + 2 * logits[:1, :1], -1).to(dtype)


@pytest.mark.parametrize("policy", [Rule(threshold=0.4), Rule("mean", 0.6, panel="all"), Static(), Confidence(1)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_torch_and_numpy_decide_alike(policy, dtype):
    tensor = votes(dtype=dtype)
    outcome = replay(tensor, MACS, policy)
    assert outcome.confidence.dtype == outcome.probs.dtype == dtype
    assert outcome.label.dtype == outcome.exit.dtype == outcome.pivot.dtype == torch.int64
    assert outcome.passed.dtype == outcome.reached.dtype == torch.bool
    assert outcome.lazy_macs.dtype == torch.float64
    array = tensor.float().numpy() if dtype == torch.bfloat16 else tensor.numpy()
    if dtype != torch.bfloat16:  # whose rows miss 1 by more than a float32 may
        plain = replay(array, MACS, policy)
        assert plain.confidence.dtype == array.dtype
        same(outcome._replace(confidence=0, probs=0), plain._replace(confidence=0, probs=0))
        np.testing.assert_array_equal(outcome.confidence.numpy(), plain.confidence)


@pytest.mark.parametrize("with_order", [False, True])
@pytest.mark.parametrize("with_absences", [False, True])
def test_the_torch_namespace_itself(with_order, with_absences):
    """What a tensor on a device goes through, on a CPU tensor that is not turned into a numpy view."""
    check_on("cpu", with_order, with_absences)


@pytest.mark.gpu
@pytest.mark.parametrize("with_order", [False, True])
@pytest.mark.parametrize("with_absences", [False, True])
def test_a_cuda_tensor(with_order, with_absences):
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    check_on("cuda", with_order, with_absences)
    there = replay(votes().cuda(), MACS, Rule(threshold=0.4))
    assert there.label.device.type == "cuda"
    same(type(there)(*(x.cpu() for x in there)), replay(votes(), MACS, Rule(threshold=0.4)))


def check_on(device, with_order, with_absences):
    probs, n = votes().double(), 300
    generator = np.random.default_rng(0)
    order = np.argsort(MACS, axis=1, kind="stable")[:, :, None]
    if with_order:
        order = generator.permuted(np.broadcast_to(np.arange(3)[None, :, None], (2, 3, n)), axis=1)
    present = torch.as_tensor(generator.random((2, 3, n)) < 0.7) if with_absences else None
    there = probs.to(device)
    mask = None if present is None else present.to(device)
    ranks = torch.as_tensor(order).to(device)
    lattice = Lattice(MACS, ranks, 5, there[0, 0, :0, 0])
    for policy in (Rule(threshold=0.4), Rule("mean", 0.6, panel="all"), Static(), Confidence(1, 0.7)):
        expected = replay(
            probs.numpy(), MACS, policy, order=order, present=None if present is None else present.numpy()
        )
        verdicts = [drive(policy, Recorded(there, mask), n, lattice)[0]]
        if isinstance(policy, Rule):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("quorate.squad.fused.host", lambda x: x)
                examined = examine(there, mask, policy, ranks)
                verdicts.append(conclude(examined, *first_passing(examined.bound, policy.threshold)))
        for verdict in verdicts:
            for name in ("label", "exit", "confidence", "passed"):
                np.testing.assert_allclose(getattr(verdict, name).cpu(), getattr(expected, name), atol=1e-12)


def test_stages_come_back_in_kind():
    table = stages(votes(dtype=torch.bfloat16), MACS, Rule())
    assert table.confidence.dtype == torch.bfloat16
    assert table.bound.dtype == torch.float64
    assert table.label.shape == (2, 300)


def test_lists_are_numbers_too():
    assert replay([[[[0.5, 0.5]]]], [[1]], Rule("mean")).label.tolist() == [0]


def test_votes_that_need_gradients_are_decided_without_them():
    outcome = replay(votes().requires_grad_(), MACS, Rule())
    assert not outcome.probs.requires_grad


def test_deciding_on_numpy_imports_no_torch_and_no_scipy():
    code = (
        "import sys, numpy as np, quorate.squad as s\n"
        "s.replay(np.full((1, 3, 2, 2), .5), [[1, 1, 1]], s.Rule())\n"
        "s.replay(np.full((1, 3, 2, 2), .5), [[1, 1, 1]], s.Static())\n"
        "assert not {'torch', 'scipy', 'pydantic'} & set(sys.modules), sorted(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
