"""Taking turns: jobs timed in one interleaved run, so that whatever else the machine does meets all of them.

Shapes: ``R`` rounds, ``B`` batches, ``K`` learners, ``E`` exits.
This file does not know what the jobs are for.
"""

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from quorate.engine.networks import Array

__all__ = ["Tick", "interleaved", "per_image", "spread"]

Tick = Callable[[str, int, int], None]
"""Told what is being done, the steps done, and of how many."""

Key = TypeVar("Key", bound=Hashable)


def interleaved(
    jobs: Mapping[Key, Sequence[Callable[[], Any]]],
    rounds: int,
    tick: Tick | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Key, Array]:
    """Milliseconds of every call, ``[R, B]`` by job, in order after one round that warms up.

    Args:
        jobs: each a call for every batch.
        rounds: how often everybody has a turn; each round begins with another job.
        tick: told about the progress.
        clock: in seconds.

    Example:
        >>> interleaved({"a": [lambda: None], "b": [lambda: None] * 3}, rounds=2)["b"].shape
        (2, 3)
    """
    taken = {name: np.empty((rounds, len(calls))) for name, calls in jobs.items()}
    names, total = list(jobs), (rounds + 1) * len(jobs)
    for turn in range(-1, rounds):
        first = max(turn, 0) % len(names)
        for done, name in enumerate(names[first:] + names[:first]):
            for b, call in enumerate(jobs[name]):
                start = clock()
                call()
                if turn >= 0:
                    taken[name][turn, b] = clock() - start
            if tick is not None:
                tick(str(name), (turn + 1) * len(names) + done + 1, total)
    return {name: 1e3 * seconds for name, seconds in taken.items()}


def per_image(taken_RB: Array, size: int) -> float:
    """Mean over batches of the median over rounds, per image: what the same images cost, whatever else was going on.

    Example:
        >>> per_image(np.array([[1.0, 9.0], [2.0, 9.0], [99.0, 9.0]]), size=1)
        5.5
    """
    return float(np.median(taken_RB, axis=0).mean() / size)


def spread(taken_RB: Array, size: int) -> tuple[float, float]:
    """Median and 95th percentile of all calls, per image.

    Example:
        >>> spread(np.array([[2.0, 4.0, 6.0]]), size=2)
        (2.0, 2.9)
    """
    return float(np.median(taken_RB) / size), float(np.percentile(taken_RB, 95) / size)
