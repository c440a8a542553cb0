"""The SQUAD rule over recorded votes, all exits at once: what the loop does vote by vote, as a few sweeps.

Every stage is evaluated first, and only then is it seen where each sample would have stopped. Equal to the loop by
test; it exists because replaying a million samples through the loop takes three times as long.

Shapes: ``E`` exits, ``K`` learners or ranks, ``n`` samples of a chunk, ``C`` classes.
This file knows the rule's stage functions, and no other policy.
"""

from typing import NamedTuple

from quorate.squad.arrays import counted, host, maxima, namespace
from quorate.squad.exit_test import confidence
from quorate.squad.protocol import Array, Verdict
from quorate.squad.rule import Rule, mean_distribution
from quorate.squad.voting import plurality, quorum

__all__ = ["Examined", "answer", "conclude", "examine", "first_passing"]


class Examined(NamedTuple):
    """Every stage of every sample; ``votes`` and ``confidences`` in voting order.

    Attributes:
        probs: ``[E, K, n, C]`` by learner, as recorded.
        order: ``[E, K, 1 or n]`` learner of each rank.
        votes: ``[E, K, n]`` class by rank, -1 for an absent branch.
        confidences: ``[E, K, n]`` float64 by rank.
        pivot: ``[E, n]``, ``reached``: ``[E, n]``, ``consensus``: ``[E, n]``, as :func:`quorate.squad.quorum` says.
        wait: ``[E, n]`` cost rank: the last rank that the stage waits for.
        mean: ``[E, n]`` mean confidence of the panel, 0 where unfeasible.
        bound: ``[E, n]`` its lower bound, minus infinity where unfeasible.
    """

    probs: Array
    order: Array
    votes: Array
    confidences: Array
    pivot: Array
    reached: Array
    consensus: Array
    wait: Array
    mean: Array
    bound: Array


def examine(probs: Array, present: Array | None, rule: Rule, order: Array) -> Examined:
    """Settle the vote and compute the bound of every stage, wherever the sample would have stopped."""
    num_exits, num_learners, _, _ = probs.shape
    critical = rule.critical_for(num_learners)
    votes, sure = _ballots(probs, present, order)
    xp = namespace(votes)
    probs = host(probs)
    if present is not None:
        probs = xp.where(present[:, :, :, None], probs, 0)  # whatever an absent branch holds
    stages = []
    for e in range(num_exits):
        settled = quorum(votes[e])
        wait = settled.pivot
        if rule.panel == "all":
            wait = xp.where(settled.reached, num_learners - 1, wait)
        panel = (_heard(votes[e], wait) == settled.consensus) & settled.reached
        stages.append((*settled, wait, *confidence(sure[e], panel, critical)))
    pivot, reached, consensus, wait, mean, bound = (xp.stack(x) for x in zip(*stages, strict=True))
    wait[-1] = _until_somebody(votes[-1], wait[-1])
    return Examined(probs, order, votes, sure, pivot, reached, consensus, wait, mean, bound)


def _ballots(probs: Array, present: Array | None, order: Array) -> tuple[Array, Array]:
    """Votes and confidences ``[E, K, n]`` in voting order. A tensor's maxima are found by torch, which has threads."""
    num_exits, num_learners, n, _ = probs.shape
    xp = namespace(host(probs))
    device = host(probs).device
    votes = xp.empty((num_exits, num_learners, n), dtype=xp.int64, device=device)
    sure = xp.empty((num_exits, num_learners, n), dtype=xp.float64, device=device)
    shared = order.shape[2] == 1
    for e in range(num_exits):
        for m in range(num_learners):
            k = int(order[e, m, 0]) if shared else m
            votes[e, m], sure[e, m] = counted(*(host(x) for x in maxima(probs[e, k])))
            if present is not None:
                votes[e, m][~present[e, k]] = -1
                sure[e, m][~present[e, k]] = 0
    if shared:
        return votes, sure
    return xp.take_along_axis(votes, order, axis=1), xp.take_along_axis(sure, order, axis=1)


def _heard(votes: Array, wait: Array) -> Array:
    """The votes up to rank ``wait``; the others as if they had not been cast."""
    xp = namespace(votes)
    ranks = xp.arange(votes.shape[0], device=votes.device)[:, None]
    return xp.where(ranks <= wait, votes, -1)


def _until_somebody(votes: Array, wait: Array) -> Array:
    """``wait``, moved on to the first rank that votes where nobody has up to it."""
    xp = namespace(votes)
    voted = votes >= 0
    if voted.all():
        return wait
    first = xp.where(voted.any(0), xp.argmax(xp.astype(voted, xp.int64), axis=0), votes.shape[0] - 1)
    return xp.maximum(wait, first)


def first_passing(bound: Array, threshold: float) -> tuple[Array, Array]:
    """``(exit, passed)``: the first exit whose bound is above the threshold (Eq. 8), or the last one."""
    xp = namespace(bound)
    num_exits = bound.shape[0]
    exit_ = xp.full_like(bound[0], num_exits - 1, dtype=xp.int64)
    for e in range(num_exits - 2, -1, -1):
        exit_ = xp.where(bound[e] > threshold, e, exit_)
    return exit_, (bound > threshold).any(0)


def answer(examined: Examined, e: int, rows: Array) -> tuple[Array, Array, Array]:
    """``(label, confidence, probs)`` that ``rows`` end with at exit ``e``: the panel's, or forced."""
    xp = namespace(examined.votes)

    def of_rows(x: Array) -> Array:
        return xp.take(x, rows, axis=-1)  # four times as fast as x[..., rows] in numpy

    votes, order = of_rows(examined.votes[e]), examined.order[e]
    votes = _heard(votes, _until_somebody(votes, of_rows(examined.wait[e])))
    if order.shape[1] == 1:
        ranked = [xp.take(examined.probs[e, int(k)], rows, axis=0) for k in order[:, 0]]
    else:
        ranked = [examined.probs[e, learner, rows] for learner in of_rows(order)]
    label, sure = of_rows(examined.consensus[e]), of_rows(examined.mean[e])
    split = xp.nonzero(~of_rows(examined.reached[e]))[0]
    if len(split):
        label[split] = plurality(votes[:, split], [p[split] for p in ranked])
    panel = (votes == label) & (label >= 0)
    if len(split):
        sure[split], _ = confidence(examined.confidences[e][:, rows[split]], panel[:, split])
    return label, sure, mean_distribution(ranked, panel)


def conclude(examined: Examined, exit_: Array, passed: Array) -> Verdict:
    """The verdict of samples that stop at the given exits."""
    xp = namespace(examined.votes)
    num_exits, num_learners, n = examined.votes.shape
    device = examined.votes.device
    label = xp.full_like(exit_, -1)
    sure = xp.zeros(n, dtype=xp.float64, device=device)
    probs = xp.zeros((n, examined.probs.shape[-1]), dtype=examined.probs.dtype, device=device)
    waited = xp.full((num_exits, num_learners, n), -1, dtype=xp.int16, device=device)
    cast = xp.zeros((num_exits, num_learners, n), dtype=xp.bool, device=device)
    for e in range(num_exits):
        rows = xp.nonzero(exit_ == e)[0]
        label[rows], sure[rows], probs[rows] = answer(examined, e, rows)
        for m in range(num_learners):
            heard = (examined.wait[e] >= m) & (exit_ >= e)
            rank = xp.astype(heard, xp.int16) * (m + 1) - 1
            voted = heard & (examined.votes[e, m] >= 0)
            if examined.order.shape[2] == 1:
                k = int(examined.order[e, m, 0])
                waited[e, k], cast[e, k] = rank, voted
            else:
                samples = xp.arange(n, device=device)
                waited[e, examined.order[e, m], samples] = rank
                cast[e, examined.order[e, m], samples] = voted
    visited = xp.arange(num_exits, device=device)[:, None] <= exit_
    return Verdict(
        label,
        exit_,
        sure,
        probs,
        passed,
        waited,
        cast,
        xp.full(num_learners, True, dtype=xp.bool, device=device),
        xp.where(visited, examined.pivot, -1),
        examined.reached & visited,
    )
