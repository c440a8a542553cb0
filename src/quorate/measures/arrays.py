"""What every measure does first: take arrays of any kind to numpy, and refuse what cannot be measured.

``N`` samples. This file does not know which measure asks.
"""

from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_torch_array

__all__ = ["Array", "Floats", "as_exits", "as_numpy", "as_scores"]

Array: TypeAlias = Any
"""A numpy array, a torch tensor on any device, or whatever ``numpy.asarray`` takes."""

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]


def as_numpy(values: Array) -> np.ndarray[Any, Any]:
    """``values`` as a numpy array, a view where that is possible; bfloat16 becomes float32.

    Example:
        >>> as_numpy([1, 2]).tolist()
        [1, 2]
    """
    if not isinstance(values, np.ndarray) and is_torch_array(values):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # numpy has no such type
            values = values.float()
    return np.asarray(values)


def as_scores(confidence: Array, correct: Array) -> tuple[Floats, np.ndarray[Any, np.dtype[np.bool_]]]:
    """Confidence as float64 beside right-or-wrong as booleans, of one and the same shape.

    Example:
        >>> as_scores([0.5, 1], [True, False])
        (array([0.5, 1. ]), array([ True, False]))
    """
    score, right = as_numpy(confidence), as_numpy(correct)
    if score.shape != right.shape:
        raise ValueError(
            f"confidence and correct must have the same shape, got {score.shape} and {right.shape}: "
            "give one of each per sample"
        )
    if right.dtype != np.bool_ and right.size:
        raise TypeError(f"correct must hold booleans (label == truth), got {right.dtype}")
    score = score.astype(np.float64)
    if np.isnan(score).any():
        where = int(np.isnan(score).ravel().argmax())
        raise ValueError(f"confidence must be a number, got NaN at sample {where}: give unanswered samples 0")
    return score, right.astype(np.bool_)


def as_exits(exit: Array, num_exits: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The exit taken by each sample, ``[N]``, checked against the number of exits.

    Example:
        >>> as_exits([0, 2], 3).tolist()
        [0, 2]
    """
    taken = as_numpy(exit)
    if taken.ndim != 1 or taken.size == 0:
        raise ValueError(f"exit must hold one number for each of at least one sample, got shape {taken.shape}")
    if taken.dtype.kind not in "iu":
        raise TypeError(f"exit must hold integers, got {taken.dtype}")
    if taken.min() < 0 or taken.max() >= num_exits:
        worst = taken.min() if taken.min() < 0 else taken.max()
        raise ValueError(f"exit must lie in 0..{num_exits - 1}, got {worst}: give the number of exits of the committee")
    return taken.astype(np.int64)
