"""Every point at which a policy may stop, evaluated once: a sweep over thresholds then only compares.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, ``T`` points (the exits of a rule, the votes along a
path). This file does not know which threshold is a good one.
"""

from typing import NamedTuple

from quorate.squad.arrays import host, namespace
from quorate.squad.arrivals import moments
from quorate.squad.checks import check_macs
from quorate.squad.cost import Costs, costs
from quorate.squad.fused import conclude, examine
from quorate.squad.path import PathPolicy
from quorate.squad.protocol import Array, Policy, Verdict
from quorate.squad.replaying import CheckedVotes, prepare
from quorate.squad.rule import Rule
from quorate.squad.temperature import Scaled

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

    def first(self, level: float) -> tuple[Array, Array]:
        """``[N]`` the first point of each sample whose score is above ``level``, or the last; and whether one was."""
        xp = namespace(self.score)
        passing = self.score > level
        passed = passing.any(0)
        return xp.where(passed, xp.argmax(xp.astype(passing, xp.int8), axis=0), len(self.score) - 1), passed

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
        at, passed = self.first(level)

        def pick(x: Array) -> Array:
            return xp.take_along_axis(x, at[None], axis=0)[0]

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
    charged: Array | None = None,
) -> Trace:
    """Evaluate ``policy`` at every point where it may stop; its own threshold is not used.

    Args:
        probs: as in :func:`quorate.squad.replay`, like all that follow.
        macs: ``[E, K]``.
        policy: a :class:`Rule` or a :class:`PathPolicy`, as it is or :class:`Scaled`.
        order: voting order.
        arrival: order of arrival.
        present: which branches voted.
        chained: whether a branch needs the one before it.
        charged: ``[E, K]`` costs in another unit (milliseconds) to count in; who is asked when follows from ``macs``.

    Returns:
        Points, in numpy arrays for votes in main memory. :meth:`Trace.stop` at a rule's threshold, or at the
        ``level`` of a path policy, is what :func:`quorate.squad.replay` gives.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import Confidence
        >>> trace(np.array([[[[0.9, 0.1]]], [[[0.2, 0.8]]]]), [[1], [2]], Confidence()).score
        array([[0.9],
               [0.8]])
    """
    votes = prepare(probs, macs, order, arrival, present, chained)
    table = votes.lattice.macs if charged is None else check_macs(charged, *votes.lattice.macs.shape)
    return _join([_of(part, policy, table) for _, part in votes.chunks()])


def _of(votes: CheckedVotes, policy: Policy, table: Array) -> Trace:
    if isinstance(policy, Scaled):
        return _of(votes._replace(probs=policy.apply(votes.probs)), policy.policy, table)
    if type(policy) is Rule:
        return _of_rule(votes, policy, table)
    if isinstance(policy, PathPolicy):
        return _of_path(votes, policy, table)
    raise TypeError(f"trace needs a Rule or a PathPolicy, got {type(policy).__name__}: replay it instead")


def _join(parts: list[Trace]) -> Trace:
    if len(parts) == 1:
        return parts[0]
    concat = namespace(parts[0].label).concat

    def joined(name: str) -> Array:
        return concat([getattr(part, name) for part in parts], axis=1)

    spent = Costs(*(concat(list(x), axis=1) for x in zip(*(part.costs for part in parts), strict=True)))
    return Trace(joined("score"), joined("label"), joined("exit"), joined("confidence"), spent)


def _of_rule(votes: CheckedVotes, rule: Rule, table: Array) -> Trace:
    votes = votes.settled()
    examined = examine(votes.probs, votes.present, rule, votes.lattice.order)
    xp = namespace(examined.votes)
    verdicts = []
    for e in range(len(examined.bound)):
        everybody = xp.full_like(examined.pivot[e], e)
        verdicts.append(conclude(examined, everybody, everybody < 0))
    return _stack(examined.bound, verdicts, table, votes.lattice.chained)


def _of_path(votes: CheckedVotes, policy: PathPolicy, table: Array) -> Trace:
    """Walk the whole path, whatever the score says."""
    xp = namespace(host(votes.probs))
    turns = xp.asarray(policy.path(votes.lattice), device=votes.lattice.order.device)[:, None]
    if votes.arrival is not None and not policy.in_order:
        turns = turns[xp.argsort(moments(votes.arrival)[turns[:, 0]], axis=0, stable=True), 0]
    votes = votes.settled()
    probs = host(votes.probs)
    n = probs.shape[2]
    state = policy.start(n, votes.lattice)
    everybody = xp.arange(n, device=probs.device)
    scores, verdicts = [], []
    for turn in turns:
        score = xp.full(n, -xp.inf, dtype=xp.float64, device=probs.device)
        for branch in xp.unique_values(turn).tolist():
            rows = everybody if len(turn) == 1 else xp.nonzero(turn == branch)[0]
            score[rows] = policy.count(state, rows, branch, votes.told(rows, branch))
        scores.append(score)
        verdict = policy.verdict(state)
        # the state goes on: what is read of it here must not go on with it
        waited, cast = (xp.asarray(x, copy=True) for x in (verdict.waited, verdict.cast))
        verdicts.append(verdict._replace(waited=waited, cast=cast))
    return _stack(xp.stack(scores), verdicts, table, votes.lattice.chained)


def _stack(score: Array, verdicts: list[Verdict], table: Array, chained: bool) -> Trace:
    stack = namespace(score).stack
    spent = [costs(v.waited, v.cast, v.asks, table, v.pivot is not None, chained) for v in verdicts]
    return Trace(
        score,
        stack([v.label for v in verdicts]),
        stack([v.exit for v in verdicts]),
        stack([v.confidence for v in verdicts]),
        Costs(*(stack(list(x)) for x in zip(*spent, strict=True))),
    )
