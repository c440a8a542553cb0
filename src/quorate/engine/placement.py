"""Who runs where: how many learners at once, and how many threads each of them gets.

Shapes: ``E`` exits, ``K`` learners. This file does not know networks.
"""

import os
from typing import NamedTuple

from quorate.engine.networks import Array

__all__ = ["Placement", "place", "usable_cores"]


class Placement(NamedTuple):
    """How cores are divided.

    Attributes:
        workers: how many learners run at once.
        threads: per learner.
    """

    workers: int
    threads: tuple[int, ...]


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def place(macs: Array, cores: int, workers: int | None = None, threads: int | None = None) -> Placement:
    """Divide cores between learners.

    As many learners at once as there are cores; what is left over goes to those that cost most.

    Args:
        macs: ``[E, K]``.
        cores: how many there are.
        workers: how many learners at once; None: as said.
        threads: of every learner; None: as said.

    Example:
        Two cores for three learners, and seven for three of which the second costs most.

        >>> import numpy as np
        >>> place(np.array([[1.0, 3.0, 2.0]]), 2)
        Placement(workers=2, threads=(1, 1, 1))
        >>> place(np.array([[1.0, 3.0, 2.0]]), 7)
        Placement(workers=3, threads=(2, 3, 2))
    """
    num_learners = macs.shape[1]
    for name, value in (("workers", workers), ("threads", threads)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise ValueError(f"{name} must be at least 1, or None for what fits the cores, got {value!r}")
    if workers is None:
        workers = max(1, min(num_learners, cores // (threads or 1)))
    if threads is not None:
        return Placement(workers, (threads,) * num_learners)
    each, over = divmod(max(cores, workers), workers)
    dearest = set((-macs.sum(0)).argsort(kind="stable")[:over].tolist())
    return Placement(workers, tuple(each + (k in dearest) for k in range(num_learners)))
