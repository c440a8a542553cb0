import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_definition import train_steps as slow
from tests.train.cases import darts, linear
from torch import nn

from quorate.nets import attach_exits, cascade
from quorate.train.optim import average_decay_at, averaged, learning_rate_at, make_optimiser, parameter_groups


@given(st.integers(1, 50), st.data())
@settings(max_examples=40, deadline=None)
def test_the_cosine(steps, data):
    step = data.draw(st.integers(0, steps))
    assert learning_rate_at(step, steps, 0.025, 0.001) == pytest.approx(slow.rate_at(step, steps, 0.025, 0.001))


def test_the_cosine_begins_and_ends_where_it_should():
    assert learning_rate_at(0, 600, 0.025, 0.001) == 0.025
    assert learning_rate_at(600, 600, 0.025, 0.001) == pytest.approx(0.001)
    with pytest.raises(ValueError, match=r"step must lie in \[0, 3\]"):
        learning_rate_at(4, 3, 0.025, 0.001)


@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_descent_is_that_of_textbooks(limit):
    # f(w) = sum of i * (w_i - 1)^2 / 2 over five weights, the head's two at another rate than the others' three.
    body, head = nn.Linear(3, 1, bias=False), nn.Linear(1, 2, bias=False)
    learner = cascade([nn.Sequential(body, head)])
    with torch.no_grad():
        body.weight.copy_(torch.tensor([[3.0, -2.0, 0.5]]))
        head.weight.copy_(torch.tensor([[1.5], [-1.0]]))
    optimiser = make_optimiser(learner, momentum=0.9, weight_decay=0.01, backbone_rate=0.1)
    rates = [slow.rate_at(step, 6, 0.2, 0.01) for step in range(6)]
    wanted = slow.descend(
        [3.0, -2.0, 0.5, 1.5, -1.0],
        lambda w: [(i + 1) * (x - 1) for i, x in enumerate(w)],
        rates, 0.9, 0.01, limit, [0.1, 0.1, 0.1, 1.0, 1.0],
    )  # fmt: skip
    scale = torch.arange(1.0, 6.0)
    for rate in rates:
        optimiser.zero_grad()
        weights = torch.cat([body.weight.flatten(), head.weight.flatten()])
        (scale * (weights - 1) ** 2 / 2).sum().backward()
        torch.nn.utils.clip_grad_norm_([body.weight, head.weight], limit)
        for group in optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        optimiser.step()
    got = torch.cat([body.weight.flatten(), head.weight.flatten()]).tolist()
    assert got == pytest.approx(wanted, rel=1e-5)


def test_heads_of_every_kind_of_learner_are_found():
    learner = darts()
    heads, rest = parameter_groups(learner, 0.1)
    assert heads["names"] == [f"branches.{e}.head.linear.{p}" for e in (0, 1) for p in ("weight", "bias")]
    assert len(heads["names"]) + len(rest["names"]) == len(list(learner.parameters()))
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    heads, rest = parameter_groups(attach_exits(model, ["1"], classes=5, sample=torch.zeros(2, 3, 8, 8)), 0.1)
    assert sum(p.numel() for p in heads["params"]) == (4 * 5 + 5) + (144 * 5 + 5)
    assert [p.shape for p in rest["params"]] == [(4, 3, 3, 3), (4,)]


def test_one_rate_is_one_group_and_none_leaves_the_backbone_alone():
    assert [group["factor"] for group in parameter_groups(linear())] == [1.0]
    groups = parameter_groups(cascade([nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))]), 0.0)
    assert [len(group["names"]) for group in groups] == [2]


def test_nothing_to_train_is_an_error():
    with pytest.raises(ValueError, match="no parameter of the learner wants a gradient"):
        make_optimiser(linear().requires_grad_(False))


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=30), st.floats(0, 0.999))
@settings(max_examples=40, deadline=None)
def test_the_moving_average(values, decay):
    average = {"w": torch.tensor([values[0]], dtype=torch.float64), "n": torch.tensor(0)}
    for step, value in enumerate(values[1:]):
        now = {"w": torch.tensor([value], dtype=torch.float64), "n": torch.tensor(step)}
        averaged(average, now, average_decay_at(step, decay))
    assert average["w"].item() == pytest.approx(slow.average(values, decay), abs=1e-9)
    assert average["n"].item() == len(values) - 2
