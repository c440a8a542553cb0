"""Where data sets lie, whether they are all there and undamaged, and room for images that memory cannot hold.

A *layout* is a folder and the files it must hold; a data set may have several (CIFAR-10 comes binary and
pickled). The first complete one under the root is read. What is missing is said in one sentence that also says how to
get it.

This file does not know what is inside the files.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quorate.data.dataset import Images
from quorate.errors import QuorateError

__all__ = ["Layout", "Remote", "default_root", "find", "md5_of", "room", "taken", "verify_md5"]


class Layout(NamedTuple):
    """A folder below the root and the files that must be in it.

    Attributes:
        folder: its name, with ``/`` between parts.
        files: names of the files.
        endings: what may follow a name, in order of preference.
    """

    folder: str
    files: tuple[str, ...]
    endings: tuple[str, ...] = ("",)


class Remote(NamedTuple):
    """Where a data set is published, and into which folder it goes.

    Attributes:
        folder: its name below the root.
        urls: address of each file, and the md5 published for it.
        unpack: the files to take out of them when they are archives; empty when they are kept as they are.
    """

    folder: str
    urls: tuple[tuple[str, str], ...]
    unpack: tuple[str, ...] = ()


def default_root() -> Path:
    """Where data sets are kept unless a root is given: ``$QUORATE_DATA``, else ``~/.cache/quorate``.

    Example:
        >>> default_root().is_absolute()
        True
    """
    return Path(os.environ.get("QUORATE_DATA") or "~/.cache/quorate").expanduser().absolute()


def find(name: str, root: Path, layouts: Sequence[Layout]) -> tuple[Layout, dict[str, Path]]:
    """The first layout whose files are all there, and the path of each.

    Raises:
        QuorateError: none is complete; names what was looked for, where, and the command that fetches it.

    Example:
        >>> find("toy", Path("/nowhere"), [Layout("toy", ("a.bin", "b.bin"))])
        Traceback (most recent call last):
        quorate.errors.QuorateError: toy is not in /nowhere: there is no folder toy (with a.bin, b.bin). ...
    """
    said = []
    for layout in layouts:
        folder = root / layout.folder
        paths = {file: _first(folder, file, layout.endings) for file in layout.files}
        lacking = [file for file, path in paths.items() if path is None]
        if not lacking:
            return layout, {file: path for file, path in paths.items() if path is not None}
        if folder.is_dir():
            said.append(f"the folder {layout.folder} lacks {', '.join(lacking)}")
        else:
            said.append(f"there is no folder {layout.folder} (with {', '.join(layout.files)})")
    raise QuorateError(
        f"{name} is not in {root}: {'; '.join(said)}. "
        f"Fetch it with `quorate data fetch {name} --root {root}`, or give the folder above its own as root"
    )


def _first(folder: Path, file: str, endings: Sequence[str]) -> Path | None:
    candidates = (folder / f"{file}{ending}" for ending in endings)
    return next((path for path in candidates if path.is_file()), None)


def verify_md5(paths: Mapping[str, Path], md5s: Mapping[str, str]) -> None:
    """Compare files with the checksums of the official ones; a file without a published checksum passes.

    Raises:
        QuorateError: a file differs.

    Example:
        >>> verify_md5({"a.bin": Path("a.bin")}, {})
    """
    for file, path in paths.items():
        if file in md5s and (found := md5_of(path)) != md5s[file]:
            raise QuorateError(
                f"{path}: the md5 of the official file is {md5s[file]}, this one has {found}: damaged or altered. "
                "Remove it and fetch the data set again, or read it as it is with verify=False (--no-verify)"
            )


def md5_of(path: Path) -> str:
    """The md5 of a file, as the publishers of these data sets print it: a guard against damage, not against malice.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "a").write_bytes(b"abc")
        ...     md5_of(Path(folder) / "a")
        '900150983cd24fb0d6963f7d28e17f72'
    """
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def room(shape: tuple[int, ...], limit: int | None = None) -> Images:
    """An uninitialised uint8 array: in memory when it takes less than ``limit`` bytes, else a memory map.

    The file of the map lies in :func:`default_root`, has no name, and is gone when the array is. The limit is a quarter
    of the machine's (or the container's) memory.

    Example:
        >>> room((2, 8, 8, 3)).shape
        (2, 8, 8, 3)
    """
    size = int(np.prod(shape))
    if size <= (_quarter_of_memory() if limit is None else limit):
        return np.empty(shape, np.uint8)
    default_root().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=default_root()) as file:
        return np.memmap(file, np.uint8, "w+", shape=shape)


def taken(images: Images, positions: npt.NDArray[np.int64], limit: int | None = None) -> Images:
    """The images at some positions, in :func:`room`: a memory map is copied piece by piece.

    Example:
        >>> taken(np.arange(4, dtype=np.uint8).reshape(4, 1, 1, 1), np.array([3, 1])).ravel()
        array([3, 1], dtype=uint8)
    """
    out = room((len(positions), *images.shape[1:]), limit)
    step = max(1, 2**24 // max(1, images[:1].size))
    for start in range(0, len(positions), step):
        out[start : start + step] = images[positions[start : start + step]]
    return out


def _quarter_of_memory() -> int:
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # no such question on this system
        memory = 2**33
    container = Path("/sys/fs/cgroup/memory.max")
    limit = container.read_text().strip() if container.is_file() else "max"
    return min(memory, int(limit) if limit.isdigit() else memory) // 4
