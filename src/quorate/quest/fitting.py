"""Phase 1: weights and logits of the supernet learn together (paper, section 5, Eqs. 2, 10, 15).

``sum over exits of CE(f_e) + cost_weight * L_C`` for one sample of an architecture a step, or for several, each on its
part of the batch. Weights move by SGD, logits by Adam; weight decay of the one never touches the other.

Shapes: ``B`` images, ``E`` exits, ``S`` architectures of a step; ``T`` tables, ``J`` edges, ``O`` operations. A *tally*
is ``[1 + 2 E]``, as in :mod:`quorate.train.step`.

This file does not know epochs, data sets or files. The network's weights are changed in place; everything else is in
the state that is given and returned.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from quorate.quest import adam
from quorate.quest.concrete import (
    concrete,
    gumbel,
    hard_choice,
    leave_one_out,
    score_surrogate,
    straight_through,
)
from quorate.quest.config import SearchConfig
from quorate.quest.penalty import penalty
from quorate.quest.supernet import Supernet
from quorate.train.loss import joint_loss
from quorate.train.step import autocast_for, tally_of

__all__ = ["Costs", "State", "estimator_of", "init", "loss_gradient", "make_optimiser", "update"]

BETAS = (0.5, 0.999)
REMEMBERED = 0.9
"""How much of the baseline of a single sample is that of the step before."""


class Costs(NamedTuple):
    """What operations cost: ``[T, J, O]`` MACs, and those of the uniform table."""

    table: Tensor
    reference: float


class State(NamedTuple):
    """Phase 1 between two steps; the weights are in the network and its optimiser.

    Attributes:
        logits: ``log alpha`` with Adam's averages.
        baseline: mean loss of the steps before, for the score function of a single sample; NaN before the first.
        generator: of samples.
    """

    logits: adam.State
    baseline: Tensor
    generator: torch.Generator


def init(logits: Tensor, generator: torch.Generator) -> State:
    """Phase 1 before its first step.

    Example:
        >>> init(torch.zeros(2, 14, 8), torch.Generator()).baseline
        tensor(nan)
    """
    return State(adam.init(logits), torch.full((), torch.nan, device=logits.device), generator)


def make_optimiser(supernet: Supernet, config: SearchConfig) -> torch.optim.SGD:
    """SGD over the weights; those of operations that a step did not evaluate stay as they are.

    Example:
        >>> len(make_optimiser(Supernet(2, 3), SearchConfig()).param_groups)
        1
    """
    optimiser = torch.optim.SGD(
        supernet.parameters(),
        lr=config.rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        fused=next(supernet.parameters()).device.type in ("cpu", "cuda"),
    )
    for parameter in supernet.parameters():  # at rest: fused kernels want all of them, or none
        optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def estimator_of(config: SearchConfig) -> str:
    """``score``, ``straight-through`` or ``concrete`` (the gradient of the Concrete sample itself).

    Example:
        >>> estimator_of(SearchConfig(relaxation="soft")), estimator_of(SearchConfig(relaxation="single"))
        ('concrete', 'score')
    """
    if config.estimator != "auto":
        return config.estimator
    return "concrete" if config.relaxation == "soft" else "score"


def update(
    state: State,
    supernet: Supernet,
    optimiser: torch.optim.Optimizer,
    batches: Sequence[tuple[Tensor, Tensor]],
    config: SearchConfig,
    costs: Costs,
    *,
    temperature: float | Tensor,
    rate: float,
    learn_logits: bool = True,
) -> tuple[State, Tensor]:
    """One step.

    Args:
        state: before.
        supernet: whose weights move, in place.
        optimiser: of :func:`make_optimiser`.
        batches: images and labels for the weights; with ``level="bi"`` a second pair for the logits.
        config: relaxation, estimator, penalty, rates.
        costs: of the operations.
        temperature: of the Concrete sample.
        rate: of the weights.
        learn_logits: whether they move in this step.

    Returns:
        The state after, and the tally of the first batch.

    Note:
        The penalty is that of the probabilities: the mean of Eq. 11 over samples, so its gradient has no noise.
    """
    for group in optimiser.param_groups:
        group["lr"] = rate
    optimiser.zero_grad()
    g_logits: Tensor | None = None
    if len(batches) > 1 and learn_logits:
        g_logits, _, state = loss_gradient(state, supernet, *batches[1], config, temperature, weights=False)
    g_same, tally, state = loss_gradient(state, supernet, *batches[0], config, temperature, weights=True)
    if config.clip > 0:
        torch.nn.utils.clip_grad_norm_(
            [p for p in supernet.parameters() if p.grad is not None], config.clip, foreach=True
        )
    optimiser.step()
    if learn_logits:
        g_data = g_same if g_logits is None else g_logits
        logits = state.logits.value.detach().requires_grad_()
        cost = config.cost_weight * penalty(logits.softmax(-1), costs.table, costs.reference, config.cost_form)
        (g_cost,) = torch.autograd.grad(cost, logits)
        moved = adam.update(
            state.logits, g_data + g_cost, rate=config.logit_rate, betas=BETAS, weight_decay=config.logit_decay
        )
        state = state._replace(logits=moved)
    return state, tally


def loss_gradient(
    state: State,
    supernet: Supernet,
    images: Tensor,
    labels: Tensor,
    config: SearchConfig,
    temperature: float | Tensor,
    *,
    weights: bool,
) -> tuple[Tensor, Tensor, State]:
    """Gradient of the joint loss for the logits, by the estimator of the configuration.

    Args:
        state: whose logits, baseline and generator.
        supernet: to which gradients of the weights are added.
        images: ``[B, C, H, W]``, normalised.
        labels: ``[B]``.
        config: relaxation and estimator.
        temperature: of the Concrete sample.
        weights: whether the weights want gradients.

    Returns:
        ``[T, J, O]``, the tally, and the state with another baseline.
    """
    if config.relaxation == "soft":
        return _soft(state, supernet, images, labels, config, temperature, weights=weights)
    return _single(state, supernet, images, labels, config, temperature, weights=weights)


def _soft(
    state: State, supernet: Supernet, images: Tensor, labels: Tensor, config: SearchConfig,
    temperature: float | Tensor, *, weights: bool,
) -> tuple[Tensor, Tensor, State]:  # fmt: skip
    """Every operation evaluated: nothing here waits for the host."""
    logits = state.logits.value.detach().requires_grad_()
    Z = concrete(logits, gumbel(logits.detach(), state.generator), temperature)
    if estimator_of(config) == "straight-through":
        Z = straight_through(Z)
    with autocast_for(config.precision, images.device, images.shape[-1]):
        out = supernet(images, Z)
    loss = joint_loss([one.float() for one in out], labels)
    parameters = list(supernet.parameters()) if weights else []
    g, *grads = torch.autograd.grad(loss, [logits, *parameters], allow_unused=True)
    for parameter, gradient in zip(parameters, grads, strict=True):
        parameter.grad = gradient
    return g, tally_of(loss.detach(), out, labels), state


def _single(
    state: State, supernet: Supernet, images: Tensor, labels: Tensor, config: SearchConfig,
    temperature: float | Tensor, *, weights: bool,
) -> tuple[Tensor, Tensor, State]:  # fmt: skip
    """One operation evaluated on each edge, one architecture for each part of the batch."""
    count, estimator = config.architectures, estimator_of(config)
    logits = state.logits.value.detach().requires_grad_()
    noise = gumbel(logits.detach().expand(count, *logits.shape), state.generator)
    choice_STJ = hard_choice(logits.detach(), noise)
    gates = _gates(logits, noise, temperature, choice_STJ) if estimator == "straight-through" else [None] * count
    told, losses, tallies = choice_STJ.tolist(), [], []  # the one wait for the host: which kernels to start
    for s, (x, y) in enumerate(zip(images.chunk(count), labels.chunk(count), strict=True)):
        with (
            torch.set_grad_enabled(weights or estimator != "score"),
            autocast_for(config.precision, x.device, x.shape[-1]),
        ):
            out = supernet.chosen(x, told[s], gates[s])
        loss = joint_loss([one.float() for one in out], y)
        if loss.requires_grad:
            torch.autograd.backward(
                loss / count,
                inputs=None if weights else [logits],
                retain_graph=estimator == "straight-through",
            )
        losses.append(loss.detach())
        tallies.append(tally_of(loss.detach(), out, y))
    losses_S = torch.stack(losses)
    mean = losses_S.mean()
    # The very first sample has nothing to be compared with: without a baseline it would move Adam for a hundred steps.
    before = torch.where(state.baseline.isnan(), mean, state.baseline)
    if estimator == "score":
        torch.autograd.backward(score_surrogate(logits, choice_STJ, leave_one_out(losses_S, before)))
    state = state._replace(baseline=torch.lerp(mean, before, REMEMBERED))
    assert logits.grad is not None
    return logits.grad, torch.stack(tallies).sum(0), state


def _gates(logits: Tensor, noise: Tensor, temperature: float | Tensor, choice_STJ: Tensor) -> list[Tensor]:
    """Factors of 1 whose gradient is that of the Concrete sample at the chosen operation (as in GDAS)."""
    Z = concrete(logits, noise, temperature).gather(-1, choice_STJ[..., None]).squeeze(-1)
    return list(1 + (Z - Z.detach()))  # in this order it is 1 to the bit
