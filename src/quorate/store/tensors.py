"""Reading safetensors files of strangers: sizes first, then types, then numbers.

The format cannot execute anything, and its own library checks offsets and shapes; what it lets pass (a header of
100 MB, types numpy does not have, a file of another kind) is refused here.

This file does not know what the tensors mean.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from quorate.store.faults import short

__all__ = ["read_tensors"]

LARGEST_HEADER = 16 * 2**20
TYPES = {"BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64"}


def read_tensors(path: Path, names: Collection[str] | None) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """The tensors of the file and its text metadata; ``ValueError`` says what is wrong with it.

    ``names`` are those that it may hold; None: any.

    Example:
        >>> from safetensors.numpy import save_file
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     save_file({"labels": np.array([0, 1])}, f"{folder}/votes.safetensors", {"made": "here"})
        ...     read_tensors(Path(f"{folder}/votes.safetensors"), {"labels"})
        ({'labels': array([0, 1])}, {'made': 'here'})
    """
    from safetensors import SafetensorError, safe_open

    _check_header_size(path)
    try:
        with safe_open(path, framework="numpy") as file:
            found = sorted(file.keys())
            for name in found:
                if names is not None and name not in names:
                    raise ValueError(f"holds {short(name)}, which is none of {', '.join(names)}: is it another file?")
                if (kind := file.get_slice(name).get_dtype()) not in TYPES:
                    raise ValueError(f"{name} has the type {kind}, which numpy does not have: write it as F32")
            return {name: file.get_tensor(name) for name in found}, dict(file.metadata() or {})
    except SafetensorError as error:
        raise ValueError(f"is not a whole safetensors file ({short(str(error))}): make or copy it again") from error


def _check_header_size(path: Path) -> None:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
    if size == 0:
        raise ValueError("is empty: make or copy it again")
    if len(start) < 8:
        raise ValueError(f"has only {size} bytes: make or copy it again")
    length = int.from_bytes(start, "little")
    if length > min(size - 8, LARGEST_HEADER):
        raise ValueError(
            f"is cut off or of another kind (it declares a header of {length} bytes, has {size} bytes, and headers "
            f"up to {LARGEST_HEADER} are read): make or copy it again"
        )
