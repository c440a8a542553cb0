"""Who runs where: how many learners at once, and how many threads each of them gets.

Shapes: ``E`` exits, ``K`` learners. This file does not know networks.
"""

import os
from collections.abc import Sequence
from typing import NamedTuple

from quorate.engine.networks import Array

__all__ = ["Placement", "place", "threads_each", "usable_cores"]


class Placement(NamedTuple):
    """How cores are divided.

    Attributes:
        workers: how many learners run at once.
        threads: per learner.
    """

    workers: int
    threads: tuple[int, ...]


def usable_cores() -> int:
    """How many cores this process may use.

    Example:
        >>> usable_cores() >= 1
        True
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_each(threads: int | Sequence[int] | None, num_learners: int) -> tuple[int, ...]:
    """How many threads each learner's branches may use; None: all that this process may.

    Example:
        >>> threads_each(2, 3)
        (2, 2, 2)
    """
    each = tuple(threads) if isinstance(threads, Sequence) else (threads or usable_cores(),) * num_learners
    given = each if isinstance(threads, Sequence) else (threads,)
    if len(each) != num_learners or any(
        one is not None and (isinstance(one, bool) or not isinstance(one, int) or one < 1) for one in given
    ):
        raise ValueError(f"threads must be at least 1, or None for all there are, got {threads!r}")
    return each


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
