"""Reading ``.npz`` files of strangers: nothing is unpickled, evaluated, or allocated before its size is known.

``numpy.load`` would trust the header of an array and evaluate it as a Python literal. Here a header must match one
strict pattern, and the size it declares must be that of its entry in the zip file, which in turn may not unpack to
absurdly more than it takes on disk.

This file does not know what the arrays mean.
"""

import math
import re
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

import numpy as np

from quorate.store.faults import short

__all__ = ["is_zip", "read_npz"]

MAGIC = b"\x93NUMPY"
HEADER = re.compile(
    r"""\{\s*['"]descr['"]:\s*['"](?P<dtype>[<>|=]?[A-Za-z?]\d{0,9})['"],"""
    r"""\s*['"]fortran_order['"]:\s*(?P<fortran>True|False),"""
    r"""\s*['"]shape['"]:\s*\((?P<shape>[\dL,\s]*)\),?\s*\}\s*"""
)
LONGEST_HEADER = 10_000
LARGEST_BOMB = 16 * 2**20
MOST_UNPACKED = 200
MOST_DIMENSIONS, LONGEST_SIZE = 8, 18
BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, struct.error, RuntimeError, OverflowError, IndexError, OSError)
"""What ``zipfile`` raises over damaged bytes: OSError too, when told to seek before the beginning."""


def is_zip(start: bytes) -> bool:
    r"""Whether the first bytes of a file are those of a zip file, which an ``.npz`` is.

    Example:
        >>> is_zip(b"PK\x03\x04..."), is_zip(b"{}")
        (True, False)
    """
    return start[:4] in (b"PK\x03\x04", b"PK\x05\x06")


def read_npz(path: Path, names: Collection[str]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of the file; ``ValueError`` says what is wrong with it, names other than ``names`` included.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     np.savez(f"{folder}/votes.npz", labels=[0, 1])
        ...     read_npz(Path(f"{folder}/votes.npz"), {"labels", "macs"})
        {'labels': array([0, 1])}
    """
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            for name in entries:
                if name not in names:
                    raise ValueError(f"holds {short(name)}, which is none of {', '.join(names)}: rename or remove it")
            return {name: _read_entry(archive, name, info, size) for name, info in entries.items()}
    except BROKEN as error:
        raise ValueError("is a broken or encrypted zip file: save it again with numpy.savez") from error


def _read_entry(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo, size: int) -> np.ndarray[Any, Any]:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed in an unusual way: save it again with numpy.savez")
    packed = min(info.compress_size, size)  # an entry may claim to be larger than the file
    if info.file_size > max(LARGEST_BOMB, MOST_UNPACKED * packed):
        raise ValueError(
            f"{name} would unpack from {packed} to {info.file_size} bytes, which looks like a zip bomb: "
            "save it again with numpy.savez, uncompressed"
        )
    with archive.open(info) as entry:
        dtype, shape, fortran, start = _read_header(entry, name)
        if start + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(
                f"{name} declares {math.prod(shape)} numbers of {dtype.itemsize} bytes in an entry of "
                f"{info.file_size} bytes: the file is damaged, save it again"
            )
        data = bytearray(entry.read(info.file_size - start))  # arrays over bytes could not be written to
    if start + len(data) != info.file_size:
        raise ValueError(f"{name} is cut off: save it again")
    if dtype.kind == "U" and _codes(data, dtype).max(initial=0) > sys.maxunicode:  # numpy would break on such a text
        raise ValueError(f"{name} holds text that is not Unicode: save it again")
    return np.ndarray(shape, dtype, buffer=data, order="F" if fortran else "C")


def _codes(data: bytearray, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The characters of numpy text as numbers."""
    return np.frombuffer(data, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))


def _read_header(entry: IO[bytes], name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Type, shape, column order and length of the header of an ``.npy`` entry."""
    start = entry.read(len(MAGIC) + 2)
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + 2:
        raise ValueError(f"{name} is not a numpy array: save it again with numpy.savez")
    width, code = (2, "<H") if start[-2] == 1 else (4, "<I")
    (length,) = struct.unpack(code, entry.read(width))
    if length > LONGEST_HEADER:
        raise ValueError(
            f"{name} declares a header of {length} bytes, at most {LONGEST_HEADER} are read: save it again"
        )
    header = entry.read(length).decode("latin-1")
    if re.search(r"""['"][<>|=]?O""", header):
        raise ValueError(f"{name} holds pickled objects, which are never loaded: save it as plain numbers")
    match = HEADER.fullmatch(header)
    if match is None:
        raise ValueError(f"{name} has a header that is not understood, {short(header)}: save it as plain numbers")
    try:
        dtype = np.dtype(match["dtype"])
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} has the unknown type {short(match['dtype'])}: save it as plain numbers") from error
    if dtype.kind not in "fiubUS":
        raise ValueError(f"{name} has the type {dtype}: save it as plain numbers")
    sizes = re.findall(r"\d+", match["shape"])
    if len(sizes) > MOST_DIMENSIONS or any(len(size) > LONGEST_SIZE for size in sizes):
        raise ValueError(f"{name} declares the absurd shape ({short(match['shape'])}): save it as plain numbers")
    return dtype, tuple(map(int, sizes)), match["fortran"] == "True", len(start) + width + length
