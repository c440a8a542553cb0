"""Pickles of arrays, read without executing anything.

The pickled CIFAR and ImageNet16 files hold dictionaries of numpy arrays, lists and strings. A pickle is a
program; this reader runs it with stand-ins for the five names by which numpy's arrays and numbers are written, and
refuses it the moment it asks for any other. The stand-ins note down shape, type and bytes; the arrays are made of them
afterwards, with every size checked. (numpy's own functions are no stand-ins: they trust the bytes they are given, and a
few changed ones crash the process.)

This file does not know which keys the dictionaries have.
"""

import io
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quorate.errors import QuorateError

__all__ = ["read_pickle"]


class _Type:
    """Stands for ``numpy.dtype``: plain numbers only."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"[uifb][1248]", code):
            raise pickle.UnpicklingError(f"an array of type {code!r}, which is no plain number")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """Stands for ``numpy.ndarray``: what it is made of, and later itself."""

    def __init__(self, *_: object) -> None:
        self.made: npt.NDArray[Any] = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, raw = state
        self.made = _made(raw, kind, shape, "F" if fortran else "C")


def _made(raw: Any, kind: Any, shape: Any, order: Any) -> npt.NDArray[Any]:
    """An array of checked parts."""
    data = raw.encode("latin1") if isinstance(raw, str) else raw  # Python 2 wrote bytes as text
    if not isinstance(kind, _Type) or not isinstance(data, bytes | bytearray) or order not in ("C", "F"):
        raise pickle.UnpicklingError("an array without bytes or type")
    if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
        raise pickle.UnpicklingError(f"an array of shape {shape!r}")
    if len(data) != math.prod(shape) * kind.dtype.itemsize:
        raise pickle.UnpicklingError(f"an array {list(shape)} of {len(data)} bytes")
    return np.frombuffer(data, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("numpy", "ndarray"): _Array,
            ("numpy", "dtype"): _Type,
            ("numpy.core.multiarray", "_reconstruct"): _Array,
            ("numpy.core.multiarray", "scalar"): self._scalar,
            ("numpy.core.numeric", "_frombuffer"): self._from_buffer,
            ("_codecs", "encode"): self._encode,
        }
        # numpy renamed its core package; both names are in the files of the world.
        stand_in = known.get((module.replace("numpy._core", "numpy.core"), name))
        if stand_in is None:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is no array, string, list or number")
        return stand_in

    def _scalar(self, kind: object, raw: object) -> object:
        return _made(raw, kind, (), "C").item()

    def _from_buffer(self, raw: object, kind: object, shape: object, order: object) -> _Array:
        array = _Array()
        array.made = _made(raw, kind, shape, order)
        return array

    def _encode(self, text: str, encoding: str) -> bytes:
        if encoding != "latin1":
            raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
        return text.encode("latin1")


_DAMAGE = (  # what reading damaged bytes may raise
    pickle.UnpicklingError,
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def read_pickle(path: Path) -> dict[str, Any]:
    """The dictionary in a pickle file of either Python, its keys as strings.

    Raises:
        QuorateError: the file is damaged, holds no dictionary, or asks for anything but arrays, strings, lists,
            dictionaries and numbers. Nothing of it has been executed then.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "batch"
        ...     _ = path.write_bytes(pickle.dumps({b"labels": [3, 5]}))
        ...     read_pickle(path)
        {'labels': [3, 5]}
    """
    try:
        value = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
    except _DAMAGE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise QuorateError(f"{path}: not a pickle of arrays ({reason}); nothing in it was executed") from None
    if not isinstance(value, dict):
        raise QuorateError(f"{path}: must hold a dictionary of arrays and lists, holds a {type(value).__name__}")
    return {_text(key): item.made if isinstance(item, _Array) else item for key, item in value.items()}


def _text(key: object) -> str:
    return key.decode("latin1") if isinstance(key, bytes) else str(key)
