"""Where arrays live: one body of code for numpy and torch, and numpy on every CPU.

A CPU tensor is decided on as a numpy view (no copy; bfloat16, which numpy lacks, as float32): numpy's small operations
cost a tenth of torch's, and a shipped committee has no torch at all. Tensors on a device stay there.

Shapes: ``n`` samples, ``C`` classes. This file does not know what a vote is for.
"""

from typing import Any

import numpy as np

from quorate.squad.protocol import Array

__all__ = ["counted", "host", "like", "maxima", "most_probable", "namespace", "wide"]


def namespace(x: Array) -> Any:
    """The array-API namespace of ``x``: numpy itself, or array-api-compat's torch."""
    if isinstance(x, np.ndarray):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(x)


def host(x: Array) -> Array:
    """``x`` as a numpy view where it lies in main memory, unchanged where it does not."""
    if isinstance(x, np.ndarray) or not hasattr(x, "is_cuda"):
        x = np.asarray(x)
        return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
    if x.device.type != "cpu":
        return x
    x = x.detach()
    return (x.float() if str(x.dtype) == "torch.bfloat16" else x).numpy()


def like(x: Array, model: Array, dtype: Any = None) -> Array:
    """``x`` as the kind of array that ``model`` is, with ``model``'s dtype if ``dtype`` says so."""
    x = namespace(model).asarray(x, device=model.device)
    return x if dtype is None else namespace(x).astype(x, dtype)


def wide(p: Array) -> Array:
    """Probabilities in at least float32, which half-precision arithmetic on a CPU is slower than."""
    if isinstance(p, np.ndarray):
        return p.astype(np.float32) if p.dtype == np.float16 else p
    return p.float() if p.dtype.itemsize < 4 else p


def maxima(probs: Array) -> tuple[Array, Array]:
    """``(max, argmax)`` over the classes of ``[n, C]``, the lowest index on a tie."""
    if isinstance(probs, np.ndarray):
        vote = probs.argmax(1)
        # one gather from the flat array: numpy's max over a short axis costs twice its argmax
        return probs.reshape(-1)[np.arange(0, probs.size, probs.shape[1]) + vote], vote
    confidence, vote = probs.max(-1)
    return confidence, vote


def counted(confidence: Array, vote: Array) -> tuple[Array, Array]:
    """``(vote, confidence)``: -1 and 0 where the maximum is NaN, float64."""
    xp = namespace(confidence)
    confidence = xp.astype(confidence, xp.float64)
    absent = confidence != confidence  # NaN
    if absent.any():
        vote, confidence = xp.where(absent, -1, vote), xp.where(absent, 0.0, confidence)
    return vote, confidence


def most_probable(probs: Array) -> tuple[Array, Array]:
    """The vote (Eq. 5) and its confidence: ``argmax`` and ``max`` over the classes of ``[n, C]``.

    Returns:
        ``(vote, confidence)``, int64 and float64; a row with a NaN has vote -1 and confidence 0.
    """
    return counted(*maxima(probs))
