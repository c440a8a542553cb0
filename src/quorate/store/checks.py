"""What recorded votes must be: one shape each, one type each, numbers that can be.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes. This file does not know what a file is.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from quorate.measures.arrays import as_numpy
from quorate.squad.votes import Votes
from quorate.store.faults import short
from quorate.store.scales import Scale, as_probs

__all__ = ["checked"]

Array: TypeAlias = np.ndarray[Any, Any]

KINDS = {"b": "booleans", "iu": "integers", "iuf": "numbers", "f": "floating-point numbers", "U": "text"}


def checked(votes: Votes, scale: Scale = "probs") -> Votes:
    """The same votes as numpy arrays of the documented types; ``ValueError`` says why where they cannot be that.

    ``scale`` says what ``votes.probs`` holds so far.

    Example:
        >>> votes = Votes(np.zeros((1, 2, 3, 4)), labels=[0, 3, 9], macs=np.ones((1, 2)))
        >>> checked(votes, "logits")
        Traceback (most recent call last):
        ValueError: labels must lie in 0..3, got 9 at sample 2: give each class one number
    """
    scores = _expect(scale, votes.probs, "f")
    if scores.ndim != 4 or scores.size == 0:
        raise ValueError(
            f"{scale} must have the dimensions (exits, learners, samples, classes), none empty, got {scores.shape}: "
            "give every learner the same exits"
        )
    E, K, N, C = scores.shape
    present = None if votes.present is None else _expect("present", votes.present, "b", (E, K, N))
    return Votes(
        probs=as_probs(scores, scale, present),
        labels=_labels(_expect("labels", votes.labels, "iu", (N,)), C),
        macs=_costs("macs", votes.macs, (E, K)),
        split=None if votes.split is None else _split(_expect("split", votes.split, "U", (N,))),
        present=present,
        order=None if votes.order is None else _order(votes.order, E, K, N),
        arrival=None if votes.arrival is None else _arrival(_expect("arrival", votes.arrival, "iu", (E * K, N))),
        milliseconds=None if votes.milliseconds is None else _milliseconds(votes.milliseconds, (E, K)),
        chained=_chained(votes.chained),
        metadata=votes.metadata,
    )


def _expect(name: str, values: Any, kinds: str, shape: tuple[int, ...] | None = None) -> Array:
    array = as_numpy(values)
    if array.dtype.kind not in kinds:
        raise ValueError(f"{name} must hold {KINDS[kinds]}, got the type {array.dtype}: convert it")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have the shape {shape} of the probabilities, got {array.shape}: record it again")
    return array


def _labels(labels: Array, num_classes: int) -> Array:
    bad = (labels < 0) | (labels >= num_classes)
    if bad.any():
        n = int(bad.argmax())
        raise ValueError(
            f"labels must lie in 0..{num_classes - 1}, got {labels[n]} at sample {n}: give each class one number"
        )
    return labels.astype(np.int64)


def _costs(name: str, costs: Any, shape: tuple[int, ...]) -> Array:
    costs_EK = _expect(name, costs, "iuf", shape).astype(np.float64)
    bad = ~(np.isfinite(costs_EK) & (costs_EK >= 0))
    if bad.any():
        e, k = (int(i[0]) for i in np.nonzero(bad))
        raise ValueError(
            f"{name} must be finite and not negative, got {costs_EK[e, k]:g} at exit {e}, learner {k}: correct it"
        )
    return costs_EK


def _split(split: Array) -> Array:
    for name in np.unique(split):
        if not str(name).isprintable() or not str(name):
            raise ValueError(f"split must hold printable names, got {short(str(name))}: rename it")
    return split


def _order(order: Any, E: int, K: int, N: int) -> Array:
    ranks = _expect("order", order, "iu").astype(np.int64)
    if ranks.shape not in ((E, K), (E, K, N)):
        raise ValueError(f"order must have the shape {(E, K)} or {(E, K, N)}, got {ranks.shape}: correct it")
    learners = np.arange(K).reshape((1, K) + (1,) * (ranks.ndim - 2))
    if (np.sort(ranks, axis=1) != learners).any():
        raise ValueError(f"order must name each of the learners 0..{K - 1} once at every exit: correct it")
    return ranks


def _arrival(arrival: Array) -> Array:
    branches = np.sort(arrival.astype(np.int64), axis=0)
    if branches[0].min() < -1 or branches[-1].max() >= len(branches):
        raise ValueError(f"arrival must hold branches 0..{len(branches) - 1}, or -1 for never: correct it")
    if ((branches[1:] == branches[:-1]) & (branches[1:] >= 0)).any():
        raise ValueError("arrival must name no branch twice for one sample: correct it")
    return arrival.astype(np.int64)


def _milliseconds(milliseconds: Mapping[int, Any], shape: tuple[int, ...]) -> dict[int, Array]:
    for size in milliseconds:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"milliseconds must be given by batch sizes of at least 1, got {size!r}: correct it")
    return {size: _costs(f"milliseconds at batch size {size}", ms, shape) for size, ms in milliseconds.items()}


def _chained(chained: Any) -> bool:
    if not isinstance(chained, bool | np.bool_):
        raise ValueError(f"chained must be one boolean, got {short(chained)}: give true or false")
    return bool(chained)
