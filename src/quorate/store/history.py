"""What happened, epoch by epoch: one JSON object a line, appended as it happens.

A line that was being written when the machine stopped is left out by the reader; whatever stands behind the point where
a run is taken up again is cut off first, so that every epoch has one line.

This file does not know what the lines say, but that ``epoch`` counts them.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.store.atomic import write_atomic
from quorate.store.faults import on_disk

__all__ = ["append_history", "cut_history", "read_history"]


def append_history(path: str | os.PathLike[str], row: Mapping[str, Any]) -> None:
    """Add a line, and wait until it is on the disk.

    Raises:
        QuorateError: the file cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     append_history(f"{folder}/history.jsonl", {"epoch": 0, "loss": 2.3})
        ...     read_history(f"{folder}/history.jsonl")
        [{'epoch': 0, 'loss': 2.3}]
    """
    line = json.dumps(dict(row), allow_nan=False) + "\n"
    with on_disk(Path(path), "written"), open(path, "a", encoding="utf-8") as file:
        file.write(line)
        file.flush()
        os.fsync(file.fileno())


def read_history(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a history, oldest first; none where there is no file.

    Raises:
        QuorateError: a line other than the last is no JSON object.

    Example:
        >>> read_history("/nowhere/history.jsonl")
        []
    """
    path = Path(path)
    with on_disk(path):
        if not path.exists():
            return []
        lines = path.read_bytes().split(b"\n")
        rows = []
        for number, line in enumerate(lines[:-1], 1):  # what follows the last line break was never finished
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"line {number} is not JSON: remove it") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object: remove it")
            rows.append(row)
        return rows


def cut_history(path: str | os.PathLike[str], epoch: int) -> list[dict[str, Any]]:
    """Remove the lines of ``epoch`` and later ones; the lines that stay.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for epoch in range(3):
        ...         append_history(f"{folder}/history.jsonl", {"epoch": epoch})
        ...     cut_history(f"{folder}/history.jsonl", 2)
        [{'epoch': 0}, {'epoch': 1}]
    """
    path = Path(path)
    rows = [row for row in read_history(path) if row.get("epoch", epoch) < epoch]
    if path.exists():
        write_atomic(path, "".join(json.dumps(row) + "\n" for row in rows).encode())
    return rows
