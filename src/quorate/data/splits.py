"""Which training images train, calibrate and steer the search: seeded, stratified, disjoint.

A tenth of the training set is held out first, for calibration; the rest is the
training part, which the search divides once more, 70 to 30. The test images are never touched.

Shapes: ``N`` samples; every split is a sorted ``[n]`` int64 array of positions in the training set.

This file knows labels and nothing else: neither images nor what the splits are used for.
"""

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quorate.data.dataset import Labels

__all__ = ["Splits", "digest", "held_out", "split"]


class Splits(NamedTuple):
    """Positions in the training set.

    Attributes:
        train: what final training sees, 90 %.
        calibration: where thresholds and pools are fitted, 10 %.
        search_train: what the supernet's weights see, 70 % of ``train``.
        search_validation: what the posterior sees, the other 30 % of ``train``.
    """

    train: Labels
    calibration: Labels
    search_train: Labels
    search_validation: Labels

    def digests(self) -> dict[str, str]:
        """The hash of each split, by name: what a run records.

        Example:
            >>> sorted(split([0, 1] * 50, seed=0).digests())
            ['calibration', 'search_train', 'search_validation', 'train']
        """
        return {name: digest(positions) for name, positions in self._asdict().items()}


def split(labels: npt.ArrayLike, seed: int, *, calibration: float = 0.1, search_validation: float = 0.3) -> Splits:
    """Split a training set for calibration, search and final training.

    The same labels, seed and shares give the same splits on every machine and with every version of numpy.

    Args:
        labels: ``[N]`` class of each training image.
        seed: any non-negative integer.
        calibration: share held out first.
        search_validation: share of the rest that the search holds out.

    Example:
        >>> parts = split([0, 1] * 50, seed=0)
        >>> [len(part) for part in parts]
        [90, 10, 63, 27]
    """
    labels_N = np.asarray(labels)
    apart = held_out(labels_N, calibration, (seed, 0))
    train = np.flatnonzero(~apart)
    inner = held_out(labels_N[train], search_validation, (seed, 1))
    return Splits(train, np.flatnonzero(apart), train[~inner], train[inner])


def held_out(labels: npt.ArrayLike, share: float, seed: int | tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """Mark ``round(share * N)`` samples, from every class in proportion to its size, at random within it.

    Each class gives the whole part of its share; the seats left over go to the largest remainders, ties to the lowest
    class. No class gives its last sample.

    Note:
        The draw orders the samples of a class by keys straight from the PCG64 bit generator, whose stream numpy
        promises never to change (that of its shuffles it does not) [ours].

    Example:
        >>> held_out([0, 0, 0, 0, 1, 1], 0.5, seed=0).sum()
        np.int64(3)
    """
    labels_N = np.asarray(labels)
    _check(labels_N, share, seed)
    _, inverse_N, sizes_C = np.unique(labels_N, return_inverse=True, return_counts=True)
    keys_N = np.random.PCG64(list(seed) if isinstance(seed, tuple) else seed).random_raw(len(labels_N))
    order_N = np.lexsort((keys_N, inverse_N))
    rank_N = np.empty(len(labels_N), np.int64)
    rank_N[order_N] = np.arange(len(labels_N)) - np.repeat(np.cumsum(sizes_C) - sizes_C, sizes_C)
    return np.asarray(rank_N < _seats(sizes_C, share)[inverse_N])


def _seats(sizes_C: Labels, share: float) -> Labels:
    """How many samples each class gives: largest remainders, in exact integers (a share counts to a millionth)."""
    parts = round(share * 10**6)
    exact_C = sizes_C * parts
    seats_C = exact_C // 10**6
    left = (int(sizes_C.sum()) * parts + 5 * 10**5) // 10**6 - int(seats_C.sum())
    seats_C[np.argsort(-(exact_C % 10**6), kind="stable")[:left]] += 1
    return np.minimum(seats_C, sizes_C - 1)


def _check(labels_N: Labels, share: float, seed: int | tuple[int, ...]) -> None:
    if labels_N.ndim != 1 or not len(labels_N) or labels_N.dtype.kind not in "iu":
        raise ValueError(f"labels must be one integer a sample, got {labels_N.dtype} {list(labels_N.shape)}")
    if not 0 <= share < 1:
        raise ValueError(f"the share held out must lie in [0, 1), got {share}")
    if any(part < 0 for part in (seed if isinstance(seed, tuple) else (seed,))):
        raise ValueError(f"seed must be a non-negative integer, got {seed}")


def digest(positions: npt.ArrayLike) -> str:
    """SHA-256 of positions written as little-endian 64-bit integers: equal on every machine.

    Example:
        >>> digest([0, 1, 2])[:12]
        'ab25350e3e65'
    """
    return hashlib.sha256(np.ascontiguousarray(positions, "<i8").tobytes()).hexdigest()
