"""What an answer costs, in any unit: section 6.1 of the paper (Eqs. 12 and 13), and four costs of ours.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know how a policy came to its answer: only which
branches it waited for and which of them cast a vote that counted.
"""

from typing import NamedTuple

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.protocol import Array

__all__ = ["COSTS", "Costs", "costs"]


class Costs(NamedTuple):
    """Six ways to count one answer, ``[N]`` float64 each; the first two are NaN for a policy without stages."""

    parallel_macs: Array
    parallel_energy: Array
    lazy_macs: Array
    eager_macs: Array
    free_running_macs: Array
    free_running_energy: Array


COSTS = {
    "f-m": "parallel_macs",
    "f-mt": "parallel_energy",
    "lazy": "lazy_macs",
    "eager": "eager_macs",
    "free-running": "free_running_macs",
    "free-running-energy": "free_running_energy",
}
"""The name of each cost wherever one is chosen or printed, and its field."""


def costs(waited: Array, cast: Array, asks: Array, macs: Array, stages: bool, chained: bool = True) -> Costs:
    """Every cost of ``N`` answers, for any policy.

    With ``C[e, k]`` the cost of a branch and ``T_e`` the largest among those waited for at exit ``e``:

    - ``F_M = sum over e of T_e`` (Eq. 12): the latency on K devices that wait for each other at every exit;
    - ``F_MT = sum over e, k of min(C[e, k], T_e)`` (Eq. 13): what those devices spend;
    - lazy: one device that runs nothing before a vote needs it: each learner up to its deepest cast vote;
    - eager: one device that takes every learner to the deepest exit waited for;
    - free-running: K devices that compute ahead without waiting: when the last vote waited for is in;
    - free-running energy: what they have spent by then.

    Args:
        waited: ``[E, K, N]`` rank of each branch that was waited for, -1 for the others.
        cast: ``[E, K, N]`` whether its vote counted (an absent branch is waited for and casts none).
        asks: ``[K]`` the learners that run at all.
        macs: ``[E, K]`` incremental costs.
        stages: whether the policy proceeds exit by exit; otherwise F_M and F_MT are NaN.
        chained: False where branches are whole models, which need nothing before them.

    Note:
        The paper writes one ``m`` for all exits; the pivot has a rank of its own at each. Eq. 13 is computed as the
        sum of minima, which is the same number in the order of costs and never above eager in any other. A vote of an
        unchained branch takes the time of the branches of its own learner that were waited for, up to it.

    Example:
        Two learners, two exits. The first exit needed both, the second only learner 1::

            time        0    1    2    3    4    5    6
            learner 0   [-- exit 0 --][- exit 1 ...         3 MACs, then 2
            learner 1   [- exit 0 -][----- exit 1 -----]    2 MACs, then 4

        Waiting at each exit takes 3 + 4. Running freely learner 1 is done after 6, learner 0 (5 in all) before it.

        >>> waited = np.array([[[1], [0]], [[-1], [0]]])
        >>> c = costs(waited, waited >= 0, np.array([True, True]), np.array([[3.0, 2.0], [2.0, 4.0]]), stages=True)
        >>> [float(x[0]) for x in c]
        [7.0, 11.0, 9.0, 11.0, 6.0, 11.0]
    """
    xp = namespace(waited)
    num_exits, num_learners, n = waited.shape
    if n == 1 and xp is np:
        return _costs_one((waited[:, :, 0] >= 0).tolist(), cast[:, :, 0].tolist(), asks, macs, stages, chained)
    needed, cast = xp.astype(waited >= 0, xp.float64), xp.astype(cast, xp.float64)
    zero = xp.zeros(n, dtype=xp.float64, device=waited.device)
    f_m = f_mt = lazy = eager = arrived = spent = zero
    for e in range(num_exits):
        slowest = anybody = zero
        for k in range(num_learners):
            slowest = xp.maximum(slowest, needed[e, k] * float(macs[e, k]))
            anybody = xp.maximum(anybody, needed[e, k])
        f_m = f_m + slowest
        for k in range(num_learners):
            f_mt = f_mt + xp.minimum(slowest, zero + float(macs[e, k]))
        eager = xp.maximum(eager, anybody * float(np.sum(macs[: e + 1])))
    for k in range(num_learners):
        clock = ran = zero
        way = np.cumsum(macs[:, k])
        for e in range(num_exits):
            if chained:
                clock, ran = (
                    xp.maximum(clock, needed[e, k] * float(way[e])),
                    xp.maximum(ran, cast[e, k] * float(way[e])),
                )
            else:
                clock, ran = clock + needed[e, k] * float(macs[e, k]), ran + cast[e, k] * float(macs[e, k])
        arrived, lazy = xp.maximum(arrived, clock), lazy + ran
    for k in range(num_learners):
        if bool(asks[k]):
            spent = spent + xp.minimum(arrived, zero + float(np.sum(macs[:, k])))
    if not stages:
        f_m = f_mt = zero + xp.nan
    return Costs(f_m, f_mt, lazy, eager, arrived, spent)


def _costs_one(
    needed: list[list[bool]], cast: list[list[bool]], asks: Array, macs: Array, stages: bool, chained: bool
) -> Costs:
    """:func:`costs` for a batch of one, in plain numbers: a fifth of the time, and by test the same."""
    table: list[list[float]] = macs.tolist()
    f_m = f_mt = lazy = eager = arrived = spent = 0.0
    for e, row in enumerate(table):
        slowest = max((cost for k, cost in enumerate(row) if needed[e][k]), default=0.0)
        f_m += slowest
        for cost in row:
            f_mt += min(slowest, cost)
        if any(needed[e]):
            eager = max(eager, float(np.sum(macs[: e + 1])))
    for k in range(len(table[0])):
        clock = ran = way = 0.0
        for e, row in enumerate(table):
            way += row[k]
            if chained:
                clock, ran = way if needed[e][k] else clock, way if cast[e][k] else ran
            else:
                clock, ran = clock + needed[e][k] * row[k], ran + cast[e][k] * row[k]
        arrived, lazy = max(arrived, clock), lazy + ran
    for k in np.flatnonzero(asks).tolist():
        spent += min(arrived, float(np.sum(macs[:, k])))
    if not stages:
        f_m = f_mt = np.nan
    return Costs(*np.array([f_m, f_mt, lazy, eager, arrived, spent])[:, None])
