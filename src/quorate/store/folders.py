"""Folders that are whole or not there: written under another name, renamed when everything in them is proven.

This file does not know what it holds.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from quorate.store.faults import on_disk

__all__ = ["check_new", "new_folder"]


def check_new(path: str | os.PathLike[str], what: str) -> Path:
    """Refuse a folder in which there is something: to be asked before long work, whose result shall go there.

    Example:
        >>> check_new("/", "bundle")
        Traceback (most recent call last):
        ValueError: the bundle must be a new or an empty folder, / is neither: choose another name
    """
    folder = Path(path)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"the {what} must be a new or an empty folder, {folder} is neither: choose another name")
    return folder


@contextmanager
def new_folder(path: str | os.PathLike[str], what: str) -> Iterator[Path]:
    """A draft to write into, which becomes ``path`` when the block ends well and is removed when it does not.

    Args:
        path: a folder that does not exist, or is empty.
        what: it will be, for messages.

    Raises:
        ValueError: there is something at ``path``.
        QuorateError: nothing can be written there.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as above:
        ...     with new_folder(f"{above}/run", "run") as draft:
        ...         _ = (draft / "note.txt").write_text("whole")
        ...     sorted(file.name for file in Path(above).rglob("*"))
        ['note.txt', 'run']
    """
    folder = check_new(path, what)
    draft = folder.absolute().with_name(f".{folder.absolute().name}.{secrets.token_hex(4)}.tmp")
    with on_disk(folder, "written"):
        draft.mkdir(parents=True)
    try:
        yield draft
        with on_disk(folder, "written"):
            if folder.exists():
                folder.rmdir()
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
