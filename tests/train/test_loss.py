import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_definition import train_loss as slow

from quorate.train.loss import exit_losses, joint_loss

SCORES = st.floats(-5, 5, width=32)


@given(st.data(), st.integers(1, 4), st.integers(1, 5), st.integers(2, 5))
@settings(max_examples=80, deadline=None)
def test_it_is_the_sum_that_the_paper_writes(data, exits, samples, classes):
    logits = [[[data.draw(SCORES) for _ in range(classes)] for _ in range(samples)] for _ in range(exits)]
    labels = [data.draw(st.integers(0, classes - 1)) for _ in range(samples)]
    weights = [data.draw(st.floats(0, 2)) for _ in range(exits)]
    how = {
        "label_smoothing": data.draw(st.sampled_from([0.0, 0.1])),
        "distillation": data.draw(st.sampled_from([0.0, 0.3, 1.0])),
        "temperature": data.draw(st.sampled_from([1.0, 4.0])),
    }
    got = joint_loss([torch.tensor(one) for one in logits], torch.tensor(labels), weights, **how)
    wanted = slow.joint_loss(logits, labels, weights, *how.values())
    assert got.item() == pytest.approx(wanted, rel=1e-4, abs=1e-4)


def test_by_default_all_exits_weigh_one_and_nothing_is_ours():
    logits, labels = [torch.randn(4, 3) for _ in range(3)], torch.tensor([0, 1, 2, 0])
    wanted = sum(torch.nn.functional.cross_entropy(one, labels) for one in logits)
    assert torch.allclose(joint_loss(logits, labels), wanted)


def test_the_teacher_does_not_learn_from_its_pupils():
    first, last = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    exit_losses([first, last], torch.tensor([0, 1, 2, 0]), distillation=1.0)[0].backward()
    assert first.grad is not None
    assert last.grad is None


def test_logits_of_half_precision_are_judged_in_full():
    logits = torch.tensor([[20.0, 0.0]], dtype=torch.bfloat16)
    assert joint_loss([logits], torch.tensor([0])).dtype == torch.float32


def test_weights_must_be_one_for_each_exit():
    with pytest.raises(ValueError, match="exit_weights must be one for each of 2 exits, got"):
        joint_loss([torch.zeros(1, 2)] * 2, torch.tensor([0]), [1.0])
