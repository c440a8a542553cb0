"""What a committee answers: the fields of a replayed outcome, and what really ran and failed.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes. This file does not know how answers come about.
"""

from typing import NamedTuple

from quorate.engine.networks import Array
from quorate.engine.progress import Fault

__all__ = ["Answer"]


class Answer(NamedTuple):
    """Answers to ``N`` samples, numpy arrays wherever the committee ran.

    Attributes:
        label: ``[N]`` int64 class, -1 where nobody could answer.
        exit: ``[N]`` int64, from 0.
        confidence: ``[N]``.
        probs: ``[N, C]`` the policy's own distribution.
        passed: ``[N]`` whether the policy's test held where it stopped; False: forced at the end.
        pivot: ``[E, N]`` int64 pivot rank of each stage gone through, -1 beyond and for policies without stages.
        reached: ``[E, N]`` whether that stage reached its quorum.
        parallel_macs, parallel_energy, lazy_macs, eager_macs, free_running_macs, free_running_energy: ``[N]`` float64,
            see :func:`quorate.squad.costs`.
        branches: ``[E, K]`` how many samples each branch really processed on the way to a vote.
        faults: what failed, per learner; also what it processed for nothing.
        late: ``[N]`` which samples still wanted votes when their time was up; their answers are the best so far.
        arrival: ``[E * K, N]`` with ``source="parallel"`` the branches in the order told, -1 beyond; else None.
            Replaying recorded votes with ``arrival=answer.arrival, present=~answer.absent`` gives the same answers, but
            for those that were late.
        absent: ``[E, K, N]`` which of these branches were told to abstain, and those that do not exist.
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
    branches: Array
    faults: tuple[Fault, ...]
    late: Array
    arrival: Array | None = None
    absent: Array | None = None
