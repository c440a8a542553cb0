"""Sources of votes that run networks: exactly what is asked for, or whole exits.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes; branch ``e * K + k`` is exit ``e`` of learner ``k``.
This file does not know how anybody decides, nor what a network computes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from quorate.engine.networks import Array, Networks
from quorate.engine.progress import Fault, Progress
from quorate.engine.single import ROW, Single
from quorate.squad.protocol import DECIDED

__all__ = ["Eager", "Lazy"]


class Lazy:
    """Run what a vote needs and nothing else: for one device.

    Samples that want the same branch are one batch. Its learner advances for exactly those; where some of them stopped
    earlier it catches up. The states of decided samples are dropped.

    Args:
        networks: who runs.
        inputs: of this call, as ``networks`` reads them.
        n: number of samples.
        order: not used: votes come in the order in which they are wanted.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> from quorate.squad import Confidence, Lattice, drive
        >>> probs = np.array([[[[0.6, 0.4], [0.95, 0.05]]], [[[0.2, 0.8], [0.2, 0.8]]]])
        >>> lattice = Lattice(np.ones((2, 1)), np.zeros((2, 1, 1), int), 2, probs[0, 0, :0])
        >>> verdict, ran = drive(Confidence(), Lazy(RecordedNetworks(probs), None, 2), 2, lattice)
        >>> verdict.label, ran.tolist()
        (array([1, 0]), [[2], [1]])
    """

    def __init__(self, networks: Networks, inputs: Any, n: int, order: Array | None = None) -> None:
        """See the class."""
        self.progress: Progress | Single = Progress(networks, inputs, n) if n != 1 else Single(networks, inputs)
        self._open, self._learners = n, networks.present.shape[1]
        self.arrival: Array | None = None
        self.absent: Array | None = None

    def votes(self, wanted: Array) -> Iterator[tuple[Array, int, Array]]:
        """Each wanted branch, for the samples that want it."""
        self._let_go(wanted)
        num_learners = self._learners
        for branch in _distinct(wanted):
            rows = ROW if len(wanted) == 1 else np.flatnonzero(wanted == branch)
            e, k = divmod(branch, num_learners)
            yield rows, branch, self.progress.advance(k, e, rows)

    def _let_go(self, wanted: Array) -> None:
        if len(wanted) == 1 and wanted[0] >= 0:
            return
        open_ = wanted >= 0
        left = int(open_.sum())
        if left < self._open:
            self._open = left
            self.progress.forget(open_)

    def close(self) -> None:
        """Nothing runs between votes."""

    @property
    def ran(self) -> Array:
        """``[E, K]`` how many samples each branch processed on the way to a vote."""
        return self.progress.ran

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What failed, by learner."""
        return self.progress.faults


class Eager(Lazy):
    """Advance all learners at each exit for the samples still open: fewer and larger batches, more is run.

    Args:
        networks: who runs.
        inputs: of this call, as ``networks`` reads them.
        n: number of samples.
        order: ``[E, K, 1]`` the voting order, in which the votes of an exit are told; None: by learner.

    Note:
        A policy that counts votes in the order told (a pool without a path) counts whole exits here, and may answer
        otherwise than with :class:`Lazy`. All others give the same answers.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> eager = Eager(RecordedNetworks(np.full((1, 2, 3, 2), 0.5)), None, 3)
        >>> [(rows.tolist(), branch) for rows, branch, _ in eager.votes(np.array([0, -1, 1]))]
        [([0, 2], 0), ([0, 2], 1)]
        >>> eager.ran.tolist()
        [[2, 2]]
    """

    def __init__(self, networks: Networks, inputs: Any, n: int, order: Array | None = None) -> None:
        """See the class."""
        super().__init__(networks, inputs, n)
        num_exits, num_learners = networks.present.shape
        plain = np.tile(np.arange(num_learners), (num_exits, 1)) if order is None else order[:, :, 0]
        self._order: list[list[int]] = plain.tolist()

    def votes(self, wanted: Array) -> Iterator[tuple[Array, int, Array]]:
        """Every branch of each wanted exit, for the samples that want any of it."""
        self._let_go(wanted)
        num_learners = self._learners
        exits = np.where(wanted >= 0, wanted // num_learners, DECIDED)
        for e in _distinct(exits):
            rows = ROW if len(wanted) == 1 else np.flatnonzero(exits == e)
            for k in self._order[e]:
                yield rows, e * num_learners + k, self.progress.advance(k, e, rows)


def _distinct(wanted: Array) -> list[int]:
    """What is wanted by anybody, in order; a set of a list is several times faster than sorting a short array."""
    return sorted(set(wanted.tolist()) - {DECIDED})
