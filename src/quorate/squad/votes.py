"""Recorded votes: what every branch of a committee said of every sample, with the truth and the costs beside it.

They are what policies are replayed, tuned and compared on. Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C``
classes. This file does not know where votes come from, how they are stored, or who decides from them.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np

from quorate.squad.protocol import Array

__all__ = ["Votes"]


class Votes(NamedTuple):
    """The votes of ``K`` learners at ``E`` exits on ``N`` samples.

    Attributes:
        probs: ``[E, K, N, C]`` probabilities; float32 when read from a file, nan where a branch is absent.
        labels: ``[N]`` int64, the true classes.
        macs: ``[E, K]`` float64, incremental cost of each branch.
        split: ``[N]`` name of the split of each sample, a numpy array of strings; None: there is only one.
        present: ``[E, K, N]`` booleans, False where a branch did not vote; None: everybody voted.
        order: ``[E, K]`` or ``[E, K, N]`` learner of each rank; None: by MACs.
        arrival: ``[E * K, N]`` branches ``e * K + k`` in the order in which they arrived, -1 for never; None: unknown.
        milliseconds: measured time of each branch, ``[E, K]`` by batch size; None: not measured.
        chained: whether a branch needs the one before it (False: branches are whole models).
        metadata: anything JSON can say; by custom ``classes`` and ``learners`` (lists of names) and ``source``.

    Example:
        >>> votes = Votes(np.full((1, 2, 3, 2), 0.5), np.array([0, 1, 1]), np.ones((1, 2)), np.array(["a", "b", "a"]))
        >>> votes.of("a").labels
        array([0, 1])
    """

    probs: Array
    labels: Array
    macs: Array
    split: Array | None = None
    present: Array | None = None
    order: Array | None = None
    arrival: Array | None = None
    milliseconds: Mapping[int, Array] | None = None
    chained: bool = True
    metadata: Mapping[str, Any] = MappingProxyType({})

    def of(self, split: str) -> Self:
        """The votes on the samples of one split.

        Example:
            >>> Votes(np.ones((1, 1, 2, 1)), np.zeros(2, int), np.ones((1, 1)), np.array(["a", "b"])).of("test")
            Traceback (most recent call last):
            ValueError: split must be one of 'a', 'b', got 'test'
        """
        if self.split is None:
            raise ValueError(f"these votes name no splits, so there is no {split!r}: use all of them")
        rows = np.flatnonzero(np.asarray(self.split) == split)
        if not len(rows):
            names = ", ".join(repr(str(name)) for name in np.unique(self.split))
            raise ValueError(f"split must be one of {names}, got {split!r}")
        by_sample = self.order is not None and self.order.ndim == 3
        return self._replace(
            probs=self.probs[:, :, rows],
            labels=self.labels[rows],
            split=self.split[rows],
            present=None if self.present is None else self.present[:, :, rows],
            order=self.order[:, :, rows] if self.order is not None and by_sample else self.order,
            arrival=None if self.arrival is None else self.arrival[:, rows],
        )
