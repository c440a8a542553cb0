"""Policies over recorded votes: check what was given, decide chunk by chunk, count every cost.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, ``T`` points at which a policy may stop.
This file does not know how votes were recorded, nor what a label should have been.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from quorate.squad import checks
from quorate.squad.arrays import host, like, namespace, wide
from quorate.squad.cost import Costs, costs
from quorate.squad.fused import answer, conclude, examine, first_passing
from quorate.squad.loop import Recorded, drive
from quorate.squad.protocol import Array, Lattice, Policy, Verdict
from quorate.squad.rule import Rule

__all__ = ["CheckedVotes", "Outcome", "Stages", "outcome_of", "prepare", "replay", "stages"]

CHUNK = 65_536  # samples whose votes stay in the cache while they are swept


class Outcome(NamedTuple):
    """What ``N`` samples end with, in the kind of array that the probabilities were.

    Attributes:
        label: ``[N]`` int64 class, -1 where nobody could answer.
        exit: ``[N]`` int64, from 0.
        confidence: ``[N]`` in the dtype of the probabilities.
        probs: ``[N, C]`` the policy's own distribution.
        passed: ``[N]`` whether the policy's test held where it stopped; False: forced at the end.
        pivot: ``[E, N]`` int64 pivot rank of each stage gone through, -1 beyond and for policies without stages.
        reached: ``[E, N]`` whether that stage reached its quorum.
        parallel_macs, parallel_energy, lazy_macs, eager_macs, free_running_macs, free_running_energy: ``[N]`` float64,
            see :func:`quorate.squad.costs`.
    """

    label: Array
    exit: Array
    confidence: Array
    probs: Array
    passed: Array
    pivot: Array
    reached: Array
    parallel_macs: Array
    parallel_energy: Array
    lazy_macs: Array
    eager_macs: Array
    free_running_macs: Array
    free_running_energy: Array


class Stages(NamedTuple):
    """Every exit evaluated for every sample, ``[E, N]`` each, wherever the sample would have stopped.

    Attributes:
        label: the consensus, or the plurality that a forced answer would give; -1 where nobody voted.
        confidence: mean confidence of the branches that voted for it, in the dtype of the probabilities.
        bound: what the exit test compares with the threshold, float64; minus infinity where unfeasible.
        reached: whether the stage reached its quorum.
        pivot: its pivot rank.
    """

    label: Array
    confidence: Array
    bound: Array
    reached: Array
    pivot: Array


class CheckedVotes(NamedTuple):
    """Checked votes: ``probs`` as given, all else where decisions are made (numpy for main memory)."""

    probs: Array
    present: Array | None
    arrival: Array | None
    lattice: Lattice
    tol: float

    def chunks(self) -> Iterator[tuple[int, "CheckedVotes"]]:
        """Chunks of samples, in at least float32, with their values checked; one empty chunk for no samples."""
        n = self.probs.shape[2]
        for start in range(0, max(n, 1), CHUNK):
            part = slice(start, start + CHUNK)
            order = self.lattice.order if self.lattice.order.shape[2] == 1 else self.lattice.order[:, :, part]
            probs = wide(self.probs[:, :, part])
            present = None if self.present is None else self.present[:, :, part]
            arrival = None if self.arrival is None else self.arrival[:, part]
            checks.check_probs(probs, present, self.tol, start)
            lattice = self.lattice._replace(order=order, like=host(probs)[0, 0, :0, 0])
            yield start, CheckedVotes(probs, present, arrival, lattice, self.tol)


def prepare(
    probs: Array, macs: Array, order: Array | None, arrival: Array | None, present: Array | None, chained: bool
) -> CheckedVotes:
    """Check everything but the values of ``probs``, which :meth:`CheckedVotes.chunks` checks as it goes."""
    if not hasattr(probs, "dtype"):
        probs = np.asarray(probs, dtype=np.float64)
    num_exits, num_learners, n, classes = checks.check_shape(probs)
    table = checks.check_macs(macs, num_exits, num_learners)
    ranks = checks.check_order(order, table, n)
    told = checks.check_arrival(arrival, num_exits * num_learners, n)
    mask = None if present is None else checks.check_present(host(present), (num_exits, num_learners, n))
    on = host(probs)
    if not isinstance(on, np.ndarray):
        xp = namespace(on)
        ranks = xp.asarray(ranks, device=on.device)
        told = None if told is None else xp.asarray(told, device=on.device)
        mask = None if mask is None else xp.asarray(mask, device=on.device)
    lattice = Lattice(table, ranks, classes, on[0, 0, :0, 0], chained)
    return CheckedVotes(probs, mask, told, lattice, checks.tolerance(str(probs.dtype)))


def outcome_of(verdict: Verdict, cost: Costs) -> Outcome:
    """A verdict and its costs as what the user reads."""
    xp = namespace(verdict.label)
    pivot, reached = verdict.pivot, verdict.reached
    if pivot is None or reached is None:
        shape = (verdict.waited.shape[0], len(verdict.label))
        pivot = xp.full(shape, -1, dtype=xp.int64, device=verdict.label.device)
        reached = pivot >= 0
    return Outcome(*verdict[:5], pivot, reached, *cost)


def replay(
    probs: Array,
    macs: Array,
    policy: Policy,
    *,
    order: Array | None = None,
    arrival: Array | None = None,
    present: Array | None = None,
    chained: bool = True,
) -> Outcome:
    """Decide recorded votes as ``policy`` would have decided them live.

    Args:
        probs: ``[E, K, N, C]`` class probabilities of every branch, numpy or torch.
        macs: ``[E, K]`` incremental costs of the branches.
        policy: a :class:`Rule` or any other policy.
        order: ``[E, K]`` or ``[E, K, N]``, the learner of each rank, in place of the order of costs.
        arrival: ``[E * K, N]``, branches ``e * K + k`` in the order told, -1 for never: replays what really arrived.
        present: ``[E, K, N]`` False where a branch did not vote; its probabilities may be anything.
        chained: False where branches are whole models (a cascade): a vote costs its own branch, not the way to it.

    Raises:
        ValueError: for votes that are not distributions, naming exit, learner and sample.

    Example:
        >>> import numpy as np
        >>> sure, unsure = [0.98, 0.02], [0.55, 0.45]
        >>> probs = np.array([[[sure, unsure], [sure, unsure]], [[sure, sure], [sure, sure]]])
        >>> outcome = replay(probs, [[2, 3], [2, 3]], Rule(threshold=0.9))
        >>> outcome.exit, outcome.lazy_macs
        (array([0, 1]), array([ 5., 10.]))
    """
    votes = prepare(probs, macs, order, arrival, present, chained)
    parts = [_decide(part, policy) for _, part in votes.chunks()]
    return _like(_join(parts), probs)


def _decide(votes: CheckedVotes, policy: Policy) -> Outcome:
    lattice = votes.lattice
    if isinstance(policy, Rule) and votes.arrival is None:
        examined = examine(votes.probs, votes.present, policy, lattice.order)
        verdict = conclude(examined, *first_passing(examined.bound, policy.threshold))
    else:
        source = Recorded(host(votes.probs), votes.present, votes.arrival, lattice.chained)
        verdict, _ = drive(policy, source, votes.probs.shape[2], lattice)
    staged = verdict.pivot is not None
    return outcome_of(verdict, costs(verdict.waited, verdict.cast, verdict.asks, lattice.macs, staged, lattice.chained))


def _join(parts: list[Outcome]) -> Outcome:
    if len(parts) == 1:
        return parts[0]
    xp = namespace(parts[0].label)
    axis = {"probs": 0, "pivot": 1, "reached": 1}
    return Outcome(
        *(xp.concat([getattr(part, name) for part in parts], axis=axis.get(name, 0)) for name in Outcome._fields)
    )


def _like(outcome: Outcome, probs: Array) -> Outcome:
    model = probs if hasattr(probs, "dtype") else outcome.probs
    typed = {"confidence": model.dtype, "probs": model.dtype}
    return Outcome(*(like(x, model, typed.get(name)) for name, x in zip(Outcome._fields, outcome, strict=True)))


def stages(
    probs: Array, macs: Array, rule: Rule, *, order: Array | None = None, present: Array | None = None
) -> Stages:
    """Evaluate every exit for every sample, as calibration by exit and sweeps over thresholds need it.

    Args:
        probs: as in :func:`replay`.
        macs: as in :func:`replay`.
        rule: its threshold is not used.
        order: as in :func:`replay`.
        present: as in :func:`replay`.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[[[0.9, 0.1]], [[0.7, 0.3]]]])
        >>> table = stages(probs, [[1, 2]], Rule(criterion="mean"))
        >>> table.label, table.bound
        (array([[0]]), array([[0.8]]))
    """
    if not isinstance(rule, Rule):
        raise TypeError(f"stages needs a Rule, got {type(rule).__name__}: other policies have no stages")
    votes = prepare(probs, macs, order, None, present, True)
    parts = []
    for _, part in votes.chunks():
        examined = examine(part.probs, part.present, rule, part.lattice.order)
        xp = namespace(examined.votes)
        rows = xp.arange(examined.votes.shape[2], device=examined.votes.device)
        ends = [answer(examined, e, rows) for e in range(len(examined.votes))]
        label, sure = (xp.stack([end[i] for end in ends]) for i in (0, 1))
        parts.append(Stages(label, sure, examined.bound, examined.reached, examined.pivot))
    xp = namespace(parts[0].label)
    joined = Stages(*(xp.concat(list(x), axis=1) for x in zip(*parts, strict=True)))
    model = probs if hasattr(probs, "dtype") else joined.confidence
    return Stages(
        *(
            like(x, model, model.dtype if name == "confidence" else None)
            for name, x in zip(Stages._fields, joined, strict=True)
        )
    )
