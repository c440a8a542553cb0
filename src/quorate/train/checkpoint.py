"""Checkpoints on disk: the newest two are kept, a broken one makes way for the one before it.

Each is one file with a checksum, written atomically (:mod:`quorate.store.weights`), named by the step it stands at.

This file does not know what is in a checkpoint.
"""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.errors import QuorateError
from quorate.store.faults import on_disk
from quorate.store.weights import Arrays, read_weights, write_weights

__all__ = ["load_checkpoint", "remove_checkpoints", "save_checkpoint"]

KEPT = 2


def save_checkpoint(folder: Path, step: int, arrays: Arrays, about: Mapping[str, Any]) -> Path:
    """Write a checkpoint; when it is on the disk, remove all but it and the one before it.

    Args:
        folder: of the checkpoints, made where it is missing.
        step: since the beginning of the training.
        arrays: what to keep.
        about: anything JSON can say.

    Raises:
        QuorateError: it cannot be written; the older ones stay.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> with TemporaryDirectory() as folder:
        ...     for step in (1, 2, 3):
        ...         _ = save_checkpoint(Path(folder), step, {"w": np.ones(1)}, {})
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['step-0000000002.safetensors', 'step-0000000003.safetensors']
    """
    with on_disk(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:010d}.safetensors"
    write_weights(path, arrays, about)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(folder: Path) -> tuple[Arrays, dict[str, Any]] | None:
    """The newest whole checkpoint, with what was written about it; None where there has never been one.

    Broken ones are removed, with a warning that says why.

    Raises:
        QuorateError: there are checkpoints, and all of them are broken.

    Example:
        >>> load_checkpoint(Path("/nowhere")) is None
        True
    """
    paths = _newest_first(folder)
    reasons = []
    for path in paths:
        try:
            return read_weights(path)
        except QuorateError as error:
            reasons.append(str(error))
            if path != paths[-1]:
                warnings.warn(f"{error}; going on from the checkpoint before it", stacklevel=2)
                path.unlink(missing_ok=True)
    if reasons:
        raise QuorateError(f"no checkpoint can be read ({reasons[-1]}); remove {folder} to begin anew")
    return None


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints: the training is done, its weights are written.

    Example:
        >>> remove_checkpoints(Path("/nowhere"))
    """
    for path in _newest_first(folder):
        path.unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*.safetensors"), reverse=True)
