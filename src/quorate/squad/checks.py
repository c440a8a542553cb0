"""What votes and costs must be before anybody decides on them; each error names the place.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, ``B = E * K`` branches.
This file knows no policy.
"""

import numpy as np

from quorate.measures.arrays import as_numpy
from quorate.squad.arrays import host, namespace
from quorate.squad.protocol import Array

__all__ = ["check_arrival", "check_macs", "check_order", "check_present", "check_probs", "check_shape", "tolerance"]

FLOATS = ("float16", "bfloat16", "float32", "float64")


def check_shape(probs: Array) -> tuple[int, int, int, int]:
    """``probs`` is ``[E, K, N, C]`` of floats, with none of E, K, C empty."""
    if len(probs.shape) != 4:
        raise ValueError(f"probs must have 4 dimensions [exits, learners, samples, classes], got {len(probs.shape)}")
    num_exits, num_learners, n, classes = (int(size) for size in probs.shape)
    if 0 in (num_exits, num_learners, classes):
        raise ValueError(f"probs must have at least one exit, learner and class, got shape {tuple(probs.shape)}")
    if str(probs.dtype).removeprefix("torch.") not in FLOATS and getattr(probs.dtype, "kind", "") != "f":
        raise TypeError(f"probs must be floating point of 16 to 64 bits, got {probs.dtype}")
    return num_exits, num_learners, n, classes


def tolerance(dtype: str) -> float:
    """How far a row may miss 1: bfloat16's own rounding takes valid softmax rows 4e-3 away."""
    return 4e-3 if "bfloat16" in dtype else 1e-3


def check_probs(probs: Array, present: Array | None, tol: float, offset: int = 0) -> None:
    """Every row that is there sums to 1 and holds nothing negative; ``offset`` is the index of the first sample."""
    num_exits, num_learners, n, _ = probs.shape
    for e in range(num_exits if n else 0):
        for k in range(num_learners):
            rows = host(probs[e, k])
            sums = _sums(rows)
            good = abs(sums - 1) <= tol
            if not rows.min() >= 0:  # NaN included
                good = good & ~(rows < 0).any(-1)
            if present is not None:
                good = good | ~present[e, k]
            if not good.all():
                i = int(namespace(good).nonzero(~good)[0][0])
                _refuse(rows[i], sums[i], tol, f"exit {e}, learner {k}, sample {i + offset}")


def _sums(rows: Array) -> Array:
    xp = namespace(rows)
    if xp is not np:
        return xp.sum(rows, axis=-1)
    with np.errstate(all="ignore"):  # absent branches may hold anything
        return np.einsum("nc->n", rows)  # five times as fast as sums over few classes, and without a pool of threads


def _refuse(row: Array, total: Array, tol: float, where: str) -> None:
    if (row != row).any():
        raise ValueError(f"probs hold NaN at {where}: mark a branch that did not vote in `present`")
    if (row < 0).any():
        raise ValueError(f"probs must not be negative, got {float(row.min()):.6g} at {where}")
    raise ValueError(f"probs must sum to 1 within {tol:g}, got {float(total):.6g} at {where}: apply a softmax")


def check_macs(macs: Array, num_exits: int, num_learners: int) -> np.ndarray:
    """``macs`` as float64 ``[E, K]``, finite and not negative."""
    try:
        table = np.asarray(as_numpy(macs), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"macs must be a table of numbers [exits, learners], got {macs!r:.60}") from error
    if table.shape != (num_exits, num_learners):
        raise ValueError(
            f"macs must be [exits, learners] = [{num_exits}, {num_learners}] as in probs, got shape {list(table.shape)}"
        )
    bad = np.argwhere(~np.isfinite(table) | (table < 0))
    if len(bad):
        e, k = bad[0]
        raise ValueError(f"macs must be finite and not negative, got {table[e, k]:g} at exit {e}, learner {k}")
    if table.max() > 1e200:
        raise ValueError(f"macs must be small enough to be added up, got {table.max():g}: give them in millions")
    return table


def check_order(order: Array | None, macs: np.ndarray, n: int) -> np.ndarray:
    """The voting order as ``[E, K, 1 or N]``: by increasing cost, ties by index, unless given."""
    num_exits, num_learners = macs.shape
    if order is None:
        return np.argsort(macs, axis=1, kind="stable")[:, :, None]
    order = np.asarray(order)
    if order.dtype.kind not in "iu":
        raise TypeError(f"order must hold learner indices, got {order.dtype}")
    if order.ndim == 2:
        order = order[:, :, None]
    if order.shape[:2] != (num_exits, num_learners) or order.ndim != 3 or order.shape[2] not in (1, n):
        raise ValueError(
            f"order must be [{num_exits}, {num_learners}] or [{num_exits}, {num_learners}, {n}], "
            f"got shape {list(order.shape)}"
        )
    wrong = np.argwhere((np.sort(order, axis=1) != np.arange(num_learners)[None, :, None]).any(1))
    if len(wrong):
        e, i = wrong[0]
        raise ValueError(f"order must name every learner once, got {order[e, :, i].tolist()} at exit {e}")
    return order.astype(np.int64)


def check_present(present: Array | None, shape: tuple[int, int, int]) -> Array | None:
    """``present`` is ``[E, K, N]`` of truth values."""
    if present is None:
        return None
    if tuple(present.shape) != shape:
        raise ValueError(f"present must be [exits, learners, samples] = {list(shape)}, got {list(present.shape)}")
    if "bool" not in str(present.dtype):
        raise TypeError(f"present must be boolean, got {present.dtype}")
    return present


def check_arrival(arrival: Array | None, branches: int, n: int) -> np.ndarray | None:
    """``arrival`` is ``[B, N]``: each branch at most once, -1 for never."""
    if arrival is None:
        return None
    arrival = np.asarray(arrival)
    if arrival.dtype.kind not in "iu":
        raise TypeError(f"arrival must hold branch indices, got {arrival.dtype}")
    if arrival.shape != (branches, n):
        raise ValueError(f"arrival must be [exits * learners, samples] = [{branches}, {n}], got {list(arrival.shape)}")
    if arrival.size and not -1 <= arrival.min() <= arrival.max() < branches:
        raise ValueError(f"arrival must hold branches 0 to {branches - 1}, or -1 for never")
    told = np.sort(arrival, axis=0)
    twice = np.argwhere((told[1:] == told[:-1]) & (told[1:] >= 0))
    if len(twice):
        t, i = twice[0]
        raise ValueError(f"arrival must name a branch at most once, got {told[t, i]} twice for sample {i}")
    return arrival.astype(np.int64)
