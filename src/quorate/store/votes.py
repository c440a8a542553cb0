"""Recorded votes on disk, so that policies can be replayed in seconds.

Ours is a safetensors file: ``log_probs`` ``[E, K, N, C]`` (float16 unless asked otherwise), ``labels``, ``macs``, where
they exist ``split`` (numbers of the names in the metadata), ``present``, ``order``, ``arrival``, ``milliseconds``
``[S, E, K]`` with its ``batch_sizes`` ``[S]``, and one JSON text under the metadata key ``quorate``: schema, version,
chained, splits, metadata. Users of other frameworks bring a ``.npz`` with ``probs``, ``logits`` or ``log_probs``,
``labels``, ``macs``, and if they like ``split`` (names), ``present``, ``order``, ``arrival``, ``chained``.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes. This file does not know who decides from the votes.
"""

import json
import os
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from quorate.squad.votes import Votes
from quorate.store.atomic import write_atomic
from quorate.store.checks import checked
from quorate.store.faults import on_disk, short
from quorate.store.npz import is_zip, read_npz
from quorate.store.scales import Scale, as_log_probs
from quorate.store.tensors import read_tensors

__all__ = ["read_votes", "write_votes"]

SCHEMA, VERSION = "quorate.votes", 1
SCALES: tuple[Scale, ...] = get_args(Scale)
OPTIONAL = ("split", "present", "order", "arrival")
IN_NPZ = (*SCALES, "labels", "macs", *OPTIONAL, "chained")
IN_TENSORS = ("log_probs", "labels", "macs", *OPTIONAL, "milliseconds", "batch_sizes")


def read_votes(path: str | os.PathLike[str]) -> Votes:
    """Votes from a file that :func:`write_votes` made, or from a ``.npz``; its content tells which, not its name.

    Probabilities come back in float32, renormalised: a row rounded to float16 misses 1.

    Args:
        path: the file. Nothing in it is executed, unpickled, or allocated beyond what the file itself can hold.

    Raises:
        QuorateError: one line, when the file is missing, cut off, foreign, too new, or holds what votes cannot be.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     logits, labels, macs = np.zeros((2, 3, 5, 4)), np.array([0, 1, 2, 3, 0]), np.ones((2, 3))
        ...     np.savez(f"{folder}/mine.npz", logits=logits, labels=labels, macs=macs)
        ...     votes = read_votes(f"{folder}/mine.npz")
        >>> votes.probs.shape, votes.probs.dtype
        ((2, 3, 5, 4), dtype('float32'))
    """
    path = Path(path)
    with on_disk(path):
        if path.exists() and not path.is_file():
            raise ValueError("is not a file: give the path of a votes file")
        with path.open("rb") as file:
            start = file.read(8)
        return _from_npz(path) if is_zip(start) else _from_tensors(path)


def write_votes(votes: Votes, path: str | os.PathLike[str], dtype: Literal["float16", "float32"] = "float16") -> None:
    """Write votes to one file, whole or not at all.

    Args:
        votes: numpy arrays or torch tensors. Rows of absent branches may hold anything; they come back as nan.
        path: where; by custom the name ends in ``.safetensors``.
        dtype: of the log-probabilities. float16 is within 0.05 % of a probability above 0.3, and keeps every vote.

    Raises:
        ValueError: the votes contradict themselves; the message names the field.
        QuorateError: the file cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> probs = np.array([0.9993, 0.0007, 0.9995, 0.0005]).reshape(1, 1, 2, 2)
        >>> with TemporaryDirectory() as folder:
        ...     write_votes(Votes(probs, np.zeros(2, int), np.ones((1, 1))), f"{folder}/votes.safetensors")
        ...     read_votes(f"{folder}/votes.safetensors").probs[0, 0, :, 0].round(5)
        array([0.9993, 0.9995], dtype=float32)
    """
    from safetensors.numpy import save

    if dtype not in ("float16", "float32"):
        raise ValueError(f"dtype must be 'float16' or 'float32', got {dtype!r}")
    votes = checked(votes)
    tensors = {"log_probs": as_log_probs(votes.probs, dtype), "labels": votes.labels, "macs": votes.macs}
    header: dict[str, Any] = {"schema": SCHEMA, "version": VERSION, "chained": votes.chained}
    if votes.split is not None:
        names, tensors["split"] = np.unique(votes.split, return_inverse=True)
        header["splits"] = names.tolist()
    if votes.milliseconds:
        tensors["milliseconds"] = np.stack(list(votes.milliseconds.values()))
        tensors["batch_sizes"] = np.array(list(votes.milliseconds))
    for name in ("present", "order", "arrival"):
        if (values := getattr(votes, name)) is not None:
            tensors[name] = values
    data = save({name: np.ascontiguousarray(t) for name, t in tensors.items()}, {"quorate": _json(votes, header)})
    write_atomic(path, data)


def _json(votes: Votes, header: dict[str, Any]) -> str:
    try:
        return json.dumps({**header, "metadata": dict(votes.metadata)}, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata must be what JSON can say ({error}): use text, numbers, lists and dicts") from error


def _from_npz(path: Path) -> Votes:
    arrays = read_npz(path, IN_NPZ)
    scales = [scale for scale in SCALES if scale in arrays]
    if len(scales) != 1:
        raise ValueError(f"must hold one of {', '.join(SCALES)}, got {' and '.join(scales) or 'none'}: keep one")
    fields: dict[str, Any] = dict(arrays)
    if (split := arrays.get("split")) is not None and split.dtype.kind == "S":
        fields["split"] = _text(split)
    if (chained := arrays.get("chained")) is not None and chained.size == 1:
        fields["chained"] = chained.item()
    return _votes(fields, scales[0], chained=fields.get("chained", True))


def _text(split: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    try:
        return np.char.decode(split, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("split holds text that is not UTF-8: save it as numpy text") from error


def _from_tensors(path: Path) -> Votes:
    arrays, text = read_tensors(path, IN_TENSORS)
    header = _header(text)
    if "split" in arrays:
        arrays["split"] = _named(arrays["split"], header.get("splits"))
    milliseconds = None
    if "milliseconds" in arrays:
        sizes = _get(arrays, "batch_sizes")
        if sizes.dtype.kind not in "iu" or sizes.shape != arrays["milliseconds"].shape[:1]:
            raise ValueError("batch_sizes must hold one integer for each table of milliseconds: make the file again")
        milliseconds = dict(zip(sizes.tolist(), arrays["milliseconds"], strict=True))
    return _votes(
        arrays, "log_probs", chained=header.get("chained"), milliseconds=milliseconds, metadata=header["metadata"]
    )


def _votes(arrays: dict[str, Any], scale: Scale, **rest: Any) -> Votes:
    fields: dict[str, Any] = {name: arrays.get(name) for name in OPTIONAL} | rest
    return checked(Votes(_get(arrays, scale), _get(arrays, "labels"), _get(arrays, "macs"), **fields), scale)


def _get(arrays: dict[str, Any], name: str) -> Any:
    if name not in arrays:
        raise ValueError(f"lacks {name}: add it, or make the file again")
    return arrays[name]


def _header(text: dict[str, str]) -> dict[str, Any]:
    """The JSON of a votes file, its schema checked."""
    try:
        header = json.loads(text.get("quorate", "null"))
        json.dumps(header, ensure_ascii=False).encode()  # half a character pair is JSON, but nothing can print it
    except (ValueError, RecursionError) as error:
        raise ValueError("has metadata that are not JSON: make the file again") from error
    if not isinstance(header, dict) or header.get("schema") != SCHEMA:
        raise ValueError("is a safetensors file, but not of recorded votes: make one with quorate.store.write_votes")
    version = header.get("version")
    if not isinstance(version, int) or version < 1:
        raise ValueError(f"has the impossible schema version {short(version)}: make the file again")
    if version > VERSION:
        raise ValueError(f"has schema version {version}, this quorate reads up to {VERSION}: update quorate")
    if not isinstance(header.setdefault("metadata", {}), dict):
        raise ValueError("has metadata that are not a table of names: make the file again")
    return header


def _named(split: np.ndarray[Any, Any], names: Any) -> np.ndarray[Any, Any]:
    """Names of splits in place of their numbers."""
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("has splits without names: make the file again")
    if split.dtype.kind not in "iu" or split.size == 0 or split.min() < 0 or split.max() >= len(names):
        raise ValueError(f"split must hold numbers 0..{len(names) - 1}: make the file again")
    return np.take(np.array(names), split)
