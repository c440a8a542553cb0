"""Ratios: at which exit samples leave, and by which rank stages are settled.

The paper draws both as bars. Forced answers, those of samples whose test never passed, are counted apart: they leave
where they do because there is nowhere else to go.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know why anybody left.
"""

from typing import Any, NamedTuple

import numpy as np

from quorate.measures.arrays import Array, Floats, as_exits, as_numpy

__all__ = ["ExitRatios", "PivotRatios", "exit_ratios", "pivot_ratios"]


class ExitRatios(NamedTuple):
    """Shares of all samples; ``passed`` and ``forced`` together sum to 1.

    Attributes:
        passed: ``[E]`` left there because the test of the policy held.
        forced: ``[E]`` got a forced answer there (for a policy with stages, at the last exit alone).
    """

    passed: Floats
    forced: Floats


class PivotRatios(NamedTuple):
    """Shares of stages: at each exit ``by_rank`` and ``forced`` together sum to 1; nan where no stage was held.

    Attributes:
        by_rank: ``[E, K]`` settled by the vote of that rank.
        forced: ``[E]`` ended in a forced answer, whatever their pivot.
        overall: ``[K]`` as ``by_rank``, over the stages of all exits.
        overall_forced: as ``forced``, over the stages of all exits.
    """

    by_rank: Floats
    forced: Floats
    overall: Floats
    overall_forced: float


def exit_ratios(exit: Array, passed: Array, num_exits: int) -> ExitRatios:
    """Share of samples that leave at each exit, forced answers apart.

    Args:
        exit: ``[N]`` exit taken, from 0.
        passed: ``[N]`` booleans: the exit test passed.
        num_exits: ``E``.

    Example:
        >>> exit_ratios([0, 0, 1, 1], [True, True, True, False], num_exits=2)
        ExitRatios(passed=array([0.5 , 0.25]), forced=array([0.  , 0.25]))
    """
    taken = as_exits(exit, num_exits)
    passed_N = _as_passed(passed, len(taken))
    left, forced = (np.bincount(taken[rows], minlength=num_exits) / len(taken) for rows in (passed_N, ~passed_N))
    return ExitRatios(left, forced)


def pivot_ratios(pivot: Array, exit: Array, passed: Array, num_learners: int) -> PivotRatios:
    """Share of stages settled by the vote of each rank, at each exit and overall, forced answers apart.

    Args:
        pivot: ``[E, N]`` pivot rank of each stage a sample went through, -1 beyond its exit.
        exit: ``[N]`` exit taken, from 0.
        passed: ``[N]`` booleans: the exit test passed.
        num_learners: ``K``.

    Example:
        >>> ratios = pivot_ratios([[1, 2, 1], [-1, 1, 2]], exit=[0, 1, 1], passed=[True, True, False], num_learners=3)
        >>> ratios.by_rank
        array([[0.        , 0.66666667, 0.33333333],
               [0.        , 0.5       , 0.        ]])
        >>> ratios.forced
        array([0. , 0.5])
        >>> ratios.overall, ratios.overall_forced
        (array([0. , 0.6, 0.2]), 0.2)
    """
    pivot_EN = as_numpy(pivot)
    if pivot_EN.ndim != 2:
        raise ValueError(f"pivot must have two dimensions (exits, samples), got shape {pivot_EN.shape}")
    if pivot_EN.min(initial=-1) < -1 or pivot_EN.max(initial=-1) >= num_learners:
        worst = pivot_EN.min() if pivot_EN.min() < -1 else pivot_EN.max()
        raise ValueError(f"pivot must lie in -1..{num_learners - 1}, got {worst}: give the number of learners")
    num_exits = len(pivot_EN)
    taken = as_exits(exit, num_exits)
    if len(taken) != pivot_EN.shape[1]:
        raise ValueError(f"exit and pivot must agree on the samples, got {len(taken)} and {pivot_EN.shape[1]}")
    stages_EN = pivot_EN >= 0
    forced_EN = stages_EN & ~_as_passed(passed, len(taken)) & (np.arange(num_exits)[:, None] == taken)
    settled_EK = np.stack([((pivot_EN == m) & ~forced_EN).sum(axis=-1) for m in range(num_learners)], axis=-1)
    stages_E, forced_E = stages_EN.sum(axis=-1), forced_EN.sum(axis=-1)
    return PivotRatios(
        by_rank=_share(settled_EK, stages_E[:, None]),
        forced=_share(forced_E, stages_E),
        overall=_share(settled_EK.sum(axis=0), stages_E.sum()),
        overall_forced=float(_share(forced_E.sum(), stages_E.sum())),
    )


def _as_passed(passed: Array, num_samples: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    passed_N = as_numpy(passed)
    if passed_N.shape != (num_samples,):
        raise ValueError(f"passed must hold one boolean for each of {num_samples} samples, got shape {passed_N.shape}")
    if passed_N.dtype != np.bool_:
        raise TypeError(f"passed must hold booleans, got {passed_N.dtype}")
    return passed_N


def _share(part: Array, whole: Array) -> Floats:
    """``part / whole``, nan where there is nothing to share."""
    part, whole = np.broadcast_arrays(np.asarray(part, dtype=np.float64), np.asarray(whole))
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
