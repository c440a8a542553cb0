"""Samples, estimators and the steps of both phases, against enumeration and known answers."""

from itertools import pairwise, product

import pytest
import torch
from tests.quest.cases import TINY, Recalled

from quorate.quest import adam, fitting, posterior
from quorate.quest.concrete import (
    concrete,
    entropy,
    gumbel,
    hard_choice,
    leave_one_out,
    log_probability,
    straight_through,
    temperature_at,
)
from quorate.quest.fitting import Costs
from quorate.quest.penalty import cost_table, reference_macs
from quorate.quest.supernet import TABLE, Supernet
from quorate.train import joint_loss

SETTLED = -40.0


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_samples_are_distributed_as_their_logits():
    logits = torch.tensor([0.0, 1.0, -1.0, 2.0])
    choice = hard_choice(logits, gumbel(logits.expand(20_000, 4), generator()))
    share = torch.bincount(choice, minlength=4) / 20_000
    assert (share - logits.softmax(-1)).abs().max() < 0.012  # over three standard errors


def test_gumbel_has_its_mean_and_variance():
    noise = gumbel(torch.zeros(200_000, dtype=torch.float64), generator())
    assert noise.mean().item() == pytest.approx(0.5772, abs=0.01)
    assert noise.var().item() == pytest.approx(1.6449, abs=0.03)


def test_a_concrete_sample_is_its_equation():
    logits, noise, temperature = torch.randn(3, 8).double(), torch.randn(3, 8).double(), 0.7
    weights = torch.exp((logits + noise) / temperature)
    assert torch.allclose(concrete(logits, noise, temperature), weights / weights.sum(-1, keepdim=True))


def test_straight_through_is_hard_with_the_gradient_of_the_soft():
    logits = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    Z, factor = logits.softmax(-1), torch.randn(5, 8, dtype=torch.float64)
    hard = straight_through(Z)
    assert set(hard.detach().flatten().tolist()) == {0.0, 1.0}
    (got,), (wanted,) = (torch.autograd.grad((one * factor).sum(), logits) for one in (hard, logits.softmax(-1)))
    assert torch.allclose(got, wanted)


def test_what_is_straight_through_is_hard_to_the_bit():
    Z = concrete(torch.zeros(2000, 8, requires_grad=True), gumbel(torch.zeros(2000, 8), generator()), 0.7)
    assert set(straight_through(Z).flatten().tolist()) == {0.0, 1.0}
    logits, noise = torch.zeros(TABLE, requires_grad=True), gumbel(torch.zeros(200, *TABLE), generator())
    assert all((gates == 1).all() for gates in fitting._gates(logits, noise, 0.7, hard_choice(logits, noise)))


def test_the_first_sample_has_no_baseline_and_moves_nothing():
    torch.manual_seed(0)
    net, x, labels = Supernet(2, 2, 3), torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    config = TINY.model_copy(update={"architectures": 1, "estimator": "score"})
    state, moved = fitting.init(torch.zeros(TABLE), generator()), []
    for _ in range(2):
        g, _, state = fitting.loss_gradient(state, net, x, labels, config, 1.0, weights=False)
        moved.append(bool(g.any()))
    assert moved == [False, True]
    assert state.baseline.isfinite()


def test_the_temperature_falls_in_a_line_to_its_end():
    fall = [temperature_at(epoch, 150) for epoch in range(150)]
    assert (fall[0], fall[-1]) == (1.0, pytest.approx(0.03))
    assert all(b - a == pytest.approx(-0.97 / 149) for a, b in pairwise(fall))
    assert temperature_at(0, 1) == 1.0
    with pytest.raises(ValueError, match=r"step must lie in \[0, 3\), got 3"):
        temperature_at(3, 3)


def test_probability_and_entropy_of_tables():
    logits = torch.randn(2, 3, 4, dtype=torch.float64)
    choice = torch.tensor([[[0, 1, 2], [3, 3, 0]]])
    q = logits.softmax(-1)
    wanted = sum(float(q[t, j, choice[0, t, j]].log()) for t in range(2) for j in range(3))
    assert log_probability(logits, choice).item() == pytest.approx(wanted)
    assert torch.allclose(entropy(logits), torch.distributions.Categorical(logits=logits).entropy())


def test_a_baseline_is_the_mean_of_the_others():
    losses = torch.tensor([3.0, 5.0, 10.0])
    assert leave_one_out(losses).tolist() == [3 - 7.5, 5 - 6.5, 10 - 4]
    assert leave_one_out(losses[:1], torch.tensor(2.5)).tolist() == [0.5]


def test_adam_is_adam():
    torch.manual_seed(0)
    start = torch.randn(4, 3, dtype=torch.float64)
    parameter = start.clone().requires_grad_()
    theirs = torch.optim.Adam([parameter], lr=0.02, betas=(0.5, 0.999), weight_decay=0.01)
    state = adam.init(start)
    for _ in range(20):
        g = torch.randn_like(start)
        parameter.grad = g.clone()
        theirs.step()
        state = adam.update(state, g, rate=0.02, betas=(0.5, 0.999), weight_decay=0.01)
    assert torch.allclose(state.value, parameter.detach(), atol=1e-9)


def enumerable(free=((1, 0, (0, 3, 4)), (1, 2, (1, 3, 5)))):
    """A net, its images, logits of which two edges are open, and the gradient by going through all architectures.

    With two cells both are reduction cells, so table 1 is all there is.
    """
    torch.manual_seed(3)
    net = Supernet(2, 2, 3)
    x, labels = torch.randn(8, 3, 8, 8), torch.arange(8) % 3
    logits = torch.full(TABLE, SETTLED)
    logits[:, :, 4] = 0
    for t, j, operations in free:
        logits[t, j] = SETTLED
        for k in operations:
            logits[t, j, k] = 0.3 * k
    parameter = logits.clone().double().requires_grad_()
    expected = torch.zeros((), dtype=torch.float64)
    for chosen in product(*(operations for _, _, operations in free)):
        choice = logits.argmax(-1)
        for (t, j, _), k in zip(free, chosen, strict=True):
            choice[t, j] = k
        with torch.no_grad():
            loss = joint_loss(net.chosen(x, choice.tolist()), labels)
        expected = expected + log_probability(parameter, choice[None]).exp().sum() * loss
    (gradient,) = torch.autograd.grad(expected, parameter)
    return net, x, labels, logits, gradient


@pytest.mark.parametrize("architectures", [1, 2])
def test_the_mean_of_the_score_function_is_the_enumerated_gradient(architectures):
    net, x, labels, logits, wanted = enumerable()
    config = TINY.model_copy(update={"architectures": architectures, "estimator": "score"})
    recalled = Recalled(net, x)
    state = fitting.init(logits, generator(1))
    x, labels = x.repeat(architectures, 1, 1, 1), labels.repeat(architectures)  # every part is the same images
    found = []
    for _ in range(3000):
        g, _, state = fitting.loss_gradient(state, recalled, x, labels, config, 1.0, weights=False)
        found.append(g.double())
    mean, error = torch.stack(found).mean(0), torch.stack(found).std(0) / 3000**0.5
    assert wanted.abs().max() > 0.01
    assert ((mean - wanted).abs() <= 4.5 * error + 1e-6).all()
    assert error.max() < 0.1 * wanted.abs().max() * 3


MODES = [("soft", "auto"), ("soft", "straight-through"), ("single", "score"), ("single", "straight-through")]


def two_operations(worse=0, better=3):
    """Logits of which two operations are open on every edge: ``none`` hears nothing, a skip hears the image."""
    logits = torch.full(TABLE, SETTLED)
    logits[..., (worse, better)] = 0
    return logits


def told_apart(count, seed):
    """Images whose brighter half tells the class."""
    g = generator(seed)
    labels = torch.arange(count) % 2
    x = torch.randn(count, 1, 8, 8, generator=g)
    x[labels == 0, :, :, :4] += 2
    x[labels == 1, :, :, 4:] += 2
    return x, labels


@pytest.mark.parametrize(("relaxation", "estimator"), MODES)
def test_of_two_operations_the_better_one_is_found(relaxation, estimator):
    torch.manual_seed(0)
    net = Supernet(4, 2, 2, image_channels=1)
    config = TINY.model_copy(
        update={"relaxation": relaxation, "estimator": estimator, "cost_weight": 0.0, "rate": 0.05, "logit_rate": 0.1}
    )
    table = cost_table(4, 2, 8).float()
    state, optimiser = fitting.init(two_operations(), generator()), fitting.make_optimiser(net, config)
    steps = 18 if relaxation == "soft" else 50  # the soft one evaluates eight operations, and hears of all of them
    for step in range(steps):
        batch = told_apart(32, step)
        state, _ = fitting.update(
            state, net, optimiser, [batch], config, Costs(table, reference_macs(table)),
            temperature=temperature_at(step, steps), rate=0.05,
        )  # fmt: skip
    q = state.logits.value.softmax(-1)[1]
    assert q[:, 3].mean() > q[:, 0].mean() + 0.1


@pytest.mark.parametrize("estimator", ["score", "straight-through"])
def test_the_posterior_finds_it_too_and_leaves_the_weights_alone(estimator):
    torch.manual_seed(0)
    net = Supernet(4, 2, 2, image_channels=1)
    config = TINY.model_copy(update={"rate": 0.05, "cost_weight": 0.0})
    table = cost_table(4, 2, 8).float()
    state, optimiser = fitting.init(two_operations(), generator()), fitting.make_optimiser(net, config)
    for step in range(30):
        state, _ = fitting.update(
            state, net, optimiser, [told_apart(32, step)], config, Costs(table, reference_macs(table)),
            temperature=1.0, rate=0.05, learn_logits=False,
        )  # fmt: skip
    assert torch.equal(state.logits.value, two_operations())
    net.requires_grad_(False)
    before = {name: t.clone() for name, t in net.state_dict().items()}
    config = config.model_copy(update={"posterior_estimator": estimator, "posterior_rate": 0.1})
    state = posterior.init(two_operations(), generator(1))
    for step in range(15 if estimator == "straight-through" else 60):
        state, _ = posterior.update(state, net, *told_apart(32, 100 + step), config, kl_weight=1e-3)
    q = state.logits.value.softmax(-1)[1]
    assert q[:, 3].mean() > q[:, 0].mean() + 0.1
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())


def test_the_divergence_is_that_from_the_uniform_table():
    logits = torch.randn(TABLE, dtype=torch.float64)
    q = logits.softmax(-1)
    assert posterior.divergence(logits).item() == pytest.approx(float((q * (q * 8).log()).sum()))


def test_a_heavy_divergence_flattens():
    net = Supernet(2, 2, 2, image_channels=1).requires_grad_(False)
    state = posterior.init(torch.randn(TABLE, generator=generator()), generator())
    first = posterior.divergence(state.logits.value)
    for step in range(15):
        state, _ = posterior.update(
            state, net, *told_apart(16, step), TINY.model_copy(update={"posterior_rate": 0.1}), 10.0
        )
    assert posterior.divergence(state.logits.value) < 0.3 * first


def test_two_levels_take_the_logits_from_a_batch_of_their_own():
    moved = []
    for other in (0, 1):
        torch.manual_seed(0)
        net = Supernet(2, 2, 2, image_channels=1)
        config = TINY.model_copy(update={"level": "bi", "relaxation": "soft"})
        table = cost_table(2, 2, 8).float()
        state, optimiser = fitting.init(torch.zeros(TABLE), generator()), fitting.make_optimiser(net, config)
        batches = [told_apart(16, 7), told_apart(16, other)]
        state, _ = fitting.update(
            state, net, optimiser, batches, config, Costs(table, reference_macs(table)), temperature=1.0, rate=0.1
        )
        moved.append((state.logits.mean, torch.cat([p.detach().flatten() for p in net.parameters()])))
    assert not torch.equal(moved[0][0], moved[1][0])
    assert torch.equal(moved[0][1], moved[1][1])  # the weights saw the same batch both times


@pytest.mark.parametrize("relaxation", ["soft", "single"])
def test_what_was_not_evaluated_does_not_move_and_decay_is_apart(relaxation):
    torch.manual_seed(0)
    net = Supernet(2, 2, 2, image_channels=1)
    config = TINY.model_copy(
        update={"relaxation": relaxation, "logit_decay": 0.5, "weight_decay": 0.0, "architectures": 1}
    )
    table = cost_table(2, 2, 8).float()
    logits = two_operations()
    state, optimiser = fitting.init(logits, generator()), fitting.make_optimiser(net, config)
    before = {name: p.clone() for name, p in net.named_parameters()}
    fitting.update(
        state,
        net,
        optimiser,
        [told_apart(16, 7)],
        config,
        Costs(table, reference_macs(table)),
        temperature=0.5,
        rate=0.1,
    )
    still = {name for name, p in net.named_parameters() if torch.equal(p, before[name])}
    assert {name for name in before if "conv_" in name} <= still  # their weight in the mixture is 0
    assert {name for name in before if name.startswith(("stem", "heads"))}.isdisjoint(still)
