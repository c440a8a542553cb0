"""Probabilities as they are stored: as logarithms, in few bits, and back.

In float16 a probability cannot tell 0.9993 from 0.9995; its logarithm can, and is off by 0.05 % of the probability or
less where it matters. ``log_probs``, ``probs`` and ``logits`` are the three scales users bring.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes. This file does not know what a file is.
"""

from typing import Any, Literal, TypeAlias

import numpy as np

__all__ = ["Scale", "as_log_probs", "as_probs"]

Scale: TypeAlias = Literal["probs", "log_probs", "logits"]
Floats: TypeAlias = np.ndarray[Any, Any]

TOLERANCE = 1e-2
"""How far a row may miss the sum of 1: rounding 1,000 log-probabilities to float16 alone can cost 0.002."""


def as_probs(scores: Floats, scale: Scale, present: Floats | None = None) -> Floats:
    """Probabilities in float32 that sum to 1, from ``[E, K, N, C]`` scores of any scale and precision.

    Rows of absent branches (False in ``present``, ``[E, K, N]``) may hold anything and become nan.

    Example:
        >>> as_probs(np.log([[[[0.25, 0.75]]]]), "log_probs")
        array([[[[0.25, 0.75]]]], dtype=float32)
    """
    probs = np.empty(scores.shape, dtype=np.float32)
    for e, k in np.ndindex(scores.shape[:2]):  # branch by branch: float64 copies of everything would be large
        here = np.ones(scores.shape[2], dtype=bool) if present is None else present[e, k]
        rows = np.flatnonzero(here)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows becomes inf or nan, and is refused below
            weights = _weights(scores[e, k][rows].astype(np.float64), scale)
            total = weights.sum(axis=-1, keepdims=True)
        good = np.isfinite(total) & (weights >= 0).all(axis=-1, keepdims=True)
        if scale != "logits":
            good &= np.abs(total - 1) <= TOLERANCE
        if not good.all():
            n = int(np.argmin(good))
            raise ValueError(
                f"{scale} must hold {_MEANING[scale]}, got {_row(scores[e, k, rows[n]])} at exit {e}, learner {k}, "
                f"sample {rows[n]}: correct it, or mark it absent in present"
            )
        probs[e, k, rows] = weights / total
        probs[e, k, ~here] = np.nan
    return probs


def as_log_probs(probs: Floats, dtype: Literal["float16", "float32"]) -> Floats:
    """Log-probabilities in ``dtype`` of the float32 ``probs``, in which the vote of every branch is still the same.

    Where rounding would tie the winner with another class, it is lifted by the last bit: a file may blur a confidence,
    not change a vote.

    Example:
        >>> as_log_probs(np.float32([[[[0.4999, 0.5001]]]]), "float16")
        array([[[[-0.6934, -0.693 ]]]], dtype=float16)
    """
    logs = np.empty(probs.shape, dtype=dtype)
    for e, k in np.ndindex(probs.shape[:2]):
        with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf, and is stored as that
            logs_NC = np.log(probs[e, k].astype(np.float64)).astype(dtype)
        vote = probs[e, k].argmax(axis=-1)
        while (rows := np.flatnonzero(_softmax(logs_NC).argmax(axis=-1) != vote)).size:
            logs_NC[rows, vote[rows]] = np.nextafter(logs_NC[rows, vote[rows]], np.array(np.inf, dtype=dtype))
        logs[e, k] = logs_NC
    return logs


_MEANING = {
    "probs": "probabilities that sum to 1",
    "log_probs": "logarithms of probabilities that sum to 1",
    "logits": "finite numbers (or -inf beside them)",
}


def _weights(scores: Floats, scale: Scale) -> Floats:
    """What is proportional to the probabilities, in float64."""
    if scale == "probs":
        return scores
    return np.exp(scores - scores.max(axis=-1, keepdims=True) if scale == "logits" else scores)


def _softmax(logs: Floats) -> Floats:
    """What the reader will make of ``logs``."""
    weights: Floats = np.exp(logs.astype(np.float64))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights.astype(np.float32)


def _row(scores: Floats) -> str:
    shown = ", ".join(f"{float(score):g}" for score in scores[:3])
    return f"[{shown}{', ...' if len(scores) > 3 else ''}]"
