"""Files that are whole or not there: a temporary file, fsync, rename.

This file does not know what it writes.
"""

import os
import secrets
from pathlib import Path

from quorate.store.faults import on_disk

__all__ = ["write_atomic"]


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader, or a crash at any moment, finds the old file or the new one.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_atomic(f"{folder}/note.txt", b"whole")
        ...     Path(f"{folder}/note.txt").read_bytes()
        b'whole'
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with on_disk(path, "written"):
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself last, where the system can say so (Windows cannot open a folder)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
