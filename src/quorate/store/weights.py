"""Weights and checkpoints on disk: named arrays with a checksum, and what is to be said about them.

A safetensors file whose metadata carry one JSON text under ``quorate``: schema, version, the SHA-256 of everything
else, and ``about``. A file that was cut off or changed by one bit is refused.

This file does not know networks, optimisers, or what the names mean.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from quorate.store.atomic import write_atomic
from quorate.store.faults import on_disk, short
from quorate.store.tensors import read_tensors

__all__ = ["Arrays", "check_shapes", "read_weights", "write_weights"]

Arrays: TypeAlias = Mapping[str, np.ndarray[Any, Any]]
SCHEMA, VERSION = "quorate.weights", 1


def write_weights(path: str | os.PathLike[str], arrays: Arrays, about: Mapping[str, Any] | None = None) -> None:
    """Write arrays, with anything JSON can say ``about`` them, to one file, whole or not at all.

    Raises:
        QuorateError: the file cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_weights(f"{folder}/w.safetensors", {"bias": np.ones(2)}, {"epoch": 3})
        ...     read_weights(f"{folder}/w.safetensors")
        ({'bias': array([1., 1.])}, {'epoch': 3})
    """
    from safetensors.numpy import save

    text = json.dumps(dict(about or {}), allow_nan=False)
    header = {"schema": SCHEMA, "version": VERSION, "sha256": _checksum(arrays, text), "about": text}
    whole = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    write_atomic(path, save(whole, {"quorate": json.dumps(header)}))


def read_weights(path: str | os.PathLike[str]) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """The arrays of a file that :func:`write_weights` wrote, and what was written about them.

    Raises:
        QuorateError: one line, when the file is missing, cut off, changed, foreign or too new.
    """
    path = Path(path)
    with on_disk(path):
        arrays, metadata = read_tensors(path, None)
        try:
            header = json.loads(metadata.get("quorate", "null"))
            about = json.loads(header["about"])
        except (ValueError, RecursionError, KeyError, TypeError) as error:
            raise ValueError("is a safetensors file, but not weights of quorate: is it another file?") from error
        if header.get("schema") != SCHEMA or not isinstance(about, dict):
            raise ValueError("is a safetensors file, but not weights of quorate: is it another file?")
        if not isinstance(version := header.get("version"), int) or not 1 <= version <= VERSION:
            raise ValueError(f"has schema version {short(version)}, this quorate reads up to {VERSION}: update quorate")
        if header.get("sha256") != _checksum(arrays, header["about"]):
            raise ValueError("does not match its checksum: it was damaged or changed; copy or make it again")
        return arrays, about


def check_shapes(path: str | os.PathLike[str], found: Arrays, wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Arrays of a file must be those of a network, each in its shape.

    Raises:
        QuorateError: names the first array that is missing, unknown, or of another shape.

    Example:
        >>> check_shapes("w.safetensors", {"bias": np.ones(2)}, {"bias": (3,)})
        Traceback (most recent call last):
        quorate.errors.QuorateError: w.safetensors: bias must have the shape (3,), got (2,): ...
    """
    fault = "these are the weights of another network"
    with on_disk(Path(path)):
        if lacking := sorted(set(wanted) - set(found)):
            raise ValueError(f"lacks {short(lacking[0])} ({len(lacking)} such names): {fault}")
        if unknown := sorted(set(found) - set(wanted)):
            raise ValueError(f"holds {short(unknown[0])}, which the network has not ({len(unknown)} such): {fault}")
        for name, shape in wanted.items():
            if found[name].shape != tuple(shape):
                raise ValueError(f"{name} must have the shape {tuple(shape)}, got {found[name].shape}: {fault}")


def _checksum(arrays: Arrays, text: str) -> str:
    total = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()
