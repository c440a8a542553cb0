"""Every point at which a policy may stop, evaluated once: a sweep over thresholds then only compares.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, ``T`` points (the exits of a rule, the votes along a
path). This file does not know which threshold is a good one.
"""

from typing import NamedTuple

from quorate.squad.arrays import host, namespace
from quorate.squad.cost import Costs, costs
from quorate.squad.fused import conclude, examine
from quorate.squad.path import PathPolicy
from quorate.squad.protocol import Array, Lattice, Policy, Verdict
from quorate.squad.replaying import CheckedVotes, prepare
from quorate.squad.rule import Rule

__all__ = ["Stopped", "Trace", "trace"]


class Stopped(NamedTuple):
    """What ``N`` samples end with at one threshold: an :class:`Outcome` without what no sweep asks for."""

    label: Array
    exit: Array
    confidence: Array
    passed: Array
    costs: Costs


class Trace(NamedTuple):
    """What a policy would answer, and at what cost, at each point where it may stop; ``[T, N]`` each.

    Attributes:
        score: what the policy compares with its level; minus infinity where it cannot stop.
        label: ``[T, N]``, ``exit``: ``[T, N]``, ``confidence``: ``[T, N]`` of the answer there.
        costs: six arrays ``[T, N]``.
    """

    score: Array
    label: Array
    exit: Array
    confidence: Array
    costs: Costs

    def stop(self, level: float) -> Stopped:
        """Stop each sample at the first point whose score is above ``level``, or at the last.

        Example:
            >>> import numpy as np
            >>> probs = np.array([[[[0.9, 0.1]], [[0.7, 0.3]]], [[[0.9, 0.1]], [[0.9, 0.1]]]])
            >>> traced = trace(probs, [[1, 2], [3, 4]], Rule(criterion="mean"))
            >>> [int(traced.stop(threshold).exit[0]) for threshold in (0.75, 0.85)]
            [0, 1]
        """
        xp = namespace(self.score)
        passing = self.score > level
        passed = passing.any(0)
        first = xp.argmax(xp.astype(passing, xp.int64), axis=0)
        at = xp.where(passed, first, len(self.score) - 1)[None]

        def pick(x: Array) -> Array:
            return xp.take_along_axis(x, at, axis=0)[0]

        return Stopped(pick(self.label), pick(self.exit), pick(self.confidence), passed, Costs(*map(pick, self.costs)))


def trace(
    probs: Array,
    macs: Array,
    policy: Policy,
    *,
    order: Array | None = None,
    arrival: Array | None = None,
    present: Array | None = None,
    chained: bool = True,
) -> Trace:
    """Evaluate ``policy`` at every point where it may stop; its own threshold is not used.

    Args:
        probs: as in :func:`quorate.squad.replay`, like all that follow.
        macs: ``[E, K]``.
        policy: a :class:`Rule` or a :class:`PathPolicy`.
        order: voting order.
        arrival: order of arrival.
        present: which branches voted.
        chained: whether a branch needs the one before it.

    Returns:
        Points whose :meth:`Trace.stop` at ``policy.level`` (a rule's threshold) is what :func:`replay` gives.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import Confidence
        >>> trace(np.array([[[[0.9, 0.1]]], [[[0.2, 0.8]]]]), [[1], [2]], Confidence()).score
        array([[0.9],
               [0.8]])
    """
    if not isinstance(policy, Rule | PathPolicy):
        raise TypeError(f"trace needs a Rule or a PathPolicy, got {type(policy).__name__}: replay it instead")
    votes = prepare(probs, macs, order, arrival, present, chained)
    return _join([_of(_Turns.of(part, policy), policy) for _, part in votes.chunks()])


def _of(votes: "_Turns", policy: Rule | PathPolicy) -> Trace:
    return _of_rule(votes, policy) if isinstance(policy, Rule) else _of_path(votes, policy)


def _join(parts: list[Trace]) -> Trace:
    if len(parts) == 1:
        return parts[0]
    concat = namespace(parts[0].label).concat

    def joined(name: str) -> Array:
        return concat([getattr(part, name) for part in parts], axis=1)

    spent = Costs(*(concat(list(x), axis=1) for x in zip(*(part.costs for part in parts), strict=True)))
    return Trace(joined("score"), joined("label"), joined("exit"), joined("confidence"), spent)


class _Turns(NamedTuple):
    """A chunk of votes in which an arrival has become what it amounts to: orders, and absences."""

    probs: Array
    present: Array | None
    lattice: Lattice
    turns: Array  # [P, 1 or n]: the branches of a path policy, in the order in which they count

    @classmethod
    def of(cls, votes: CheckedVotes, policy: Policy) -> "_Turns":
        lattice = votes.lattice
        num_exits, num_learners = lattice.macs.shape
        xp = namespace(lattice.order)
        path = policy.path(lattice) if isinstance(policy, PathPolicy) else list(range(lattice.macs.size))
        turns = xp.asarray(path, device=lattice.order.device)[:, None]
        if votes.arrival is None:
            return cls(votes.probs, votes.present, lattice, turns)
        told, n = votes.arrival, votes.arrival.shape[1]
        never = len(told)
        when = xp.full((never + 1, n), never, dtype=xp.int64, device=told.device)
        samples = xp.arange(n, device=told.device)
        for t in range(never):
            when[told[t], samples] = t  # what never arrives is written to the row beyond the last branch
        when = when[:-1]
        arrived = (when < never).reshape(num_exits, num_learners, n)
        present = arrived if votes.present is None else votes.present & arrived
        by_exit = xp.take_along_axis(
            when.reshape(num_exits, num_learners, n), xp.broadcast_to(lattice.order, arrived.shape), axis=1
        )
        first = xp.argsort(by_exit, axis=1, stable=True)
        order = xp.take_along_axis(xp.broadcast_to(lattice.order, arrived.shape), first, axis=1)
        if isinstance(policy, PathPolicy) and not policy.in_order:
            turns = turns[xp.argsort(when[turns[:, 0]], axis=0, stable=True), 0]
        return cls(votes.probs, present, lattice._replace(order=order), turns)


def _of_rule(votes: _Turns, rule: Rule) -> Trace:
    examined = examine(votes.probs, votes.present, rule, votes.lattice.order)
    xp = namespace(examined.votes)
    verdicts = []
    for e in range(len(examined.bound)):
        everybody = xp.full_like(examined.pivot[e], e)
        verdicts.append(conclude(examined, everybody, everybody < 0))
    return _stack(examined.bound, verdicts, votes.lattice)


def _of_path(votes: _Turns, policy: PathPolicy) -> Trace:
    """Walk the whole path, whatever the score says."""
    probs = host(votes.probs)
    xp = namespace(probs)
    num_learners, n = probs.shape[1:3]
    state = policy.start(n, votes.lattice)
    everybody = xp.arange(n, device=probs.device)
    scores, verdicts = [], []
    for turn in votes.turns:
        score = xp.full(n, -xp.inf, dtype=xp.float64, device=probs.device)
        for branch in xp.unique_values(turn).tolist():
            rows = everybody if len(turn) == 1 else xp.nonzero(turn == branch)[0]
            e, k = divmod(branch, num_learners)
            told = probs[e, k, rows]
            if votes.present is not None:
                told = xp.where(votes.present[e, k, rows][:, None], told, xp.nan)
            score[rows] = policy.count(state, rows, branch, told)
        scores.append(score)
        # the state goes on: what costs read of it now must not change with it
        verdict = policy.verdict(state)
        verdicts.append(
            verdict._replace(waited=xp.asarray(verdict.waited, copy=True), cast=xp.asarray(verdict.cast, copy=True))
        )
    return _stack(xp.stack(scores), verdicts, votes.lattice)


def _stack(score: Array, verdicts: list[Verdict], lattice: Lattice) -> Trace:
    stack = namespace(score).stack
    spent = [costs(v.waited, v.cast, v.asks, lattice.macs, v.pivot is not None, lattice.chained) for v in verdicts]
    return Trace(
        score,
        stack([v.label for v in verdicts]),
        stack([v.exit for v in verdicts]),
        stack([v.confidence for v in verdicts]),
        Costs(*(stack(list(x)) for x in zip(*spent, strict=True))),
    )
