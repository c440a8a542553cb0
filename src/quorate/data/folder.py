"""A folder of pictures, one sub-folder a class.

``photos/cat/*.jpg`` and ``photos/dog/*.jpg``, of any size and kind (:mod:`quorate.data.pictures`).
Where the folder has ``train/`` with classes in it, ``test/`` or else ``val/`` is the test part; with all three,
``val/`` joins the training part, out of which every run holds its own calibration part. Otherwise a seeded stratified
fifth is held out. When every picture is grey the data set has one channel, else three.

This file does not know how a picture is decoded, nor what the splits of a run are.
"""

import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quorate.data.arrays import TEST_SHARE
from quorate.data.dataset import Dataset, Images, Labels
from quorate.data.files import room, taken
from quorate.data.pictures import is_grey, picture_endings, read_picture
from quorate.data.splits import held_out
from quorate.errors import QuorateError

__all__ = ["load_folder"]

_VALIDATION = ("val", "valid", "validation")
_SHOWN = 10


class _Pictures(NamedTuple):
    """Files of one part with the class of each, by name."""

    paths: list[Path]
    classes: list[str]


def load_folder(folder: Path, *, side: int = 64, mirror: bool = True, seed: int = 0, threads: int = 2) -> Dataset:
    """Read a folder of pictures by class; what cannot be read is listed in ``skipped``, with a warning.

    Args:
        folder: holds a sub-folder for each class, or ``train/`` and ``test/`` or ``val/`` that do.
        side: height and width of the images, cut from the middle after resizing the short side to it.
        mirror: whether mirror images mean the same; say no for text, signs and faces of clocks.
        seed: of the test part, where it is held out here.
        threads: decoders at work.

    Raises:
        QuorateError: no such folder, fewer than two classes, or a class without a readable picture.

    Example:
        >>> load_folder(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere: no such folder; ...
    """
    if side < 1 or threads < 1:
        raise ValueError(f"side and threads must be at least 1, got {side} and {threads}")
    if not folder.is_dir():
        raise QuorateError(f"{folder}: no such folder; give the one that holds a sub-folder of pictures for each class")
    train, test = _parts(folder)
    skipped: list[str] = []
    train, train_grey = _readable(folder, train, skipped)
    test, test_grey = _readable(folder, test, skipped)
    names = _names(folder, train, test)
    channels = 1 if train_grey and test_grey else 3
    decoded = []
    for part in (train, test) if test.paths else (train,):
        images, reasons = _decode(folder, part.paths, side, channels, threads)
        good = np.flatnonzero([not reason for reason in reasons])
        labels = np.array([names.index(part.classes[row]) for row in good], np.int64)
        decoded.append((images if len(good) == len(images) else taken(images, good), labels))
        skipped += filter(None, reasons)
    _warn(folder, skipped)
    source = f"pictures in {folder.name}, short side to {side}, centre cropped"
    if len(decoded) == 1:
        images, labels = decoded[0]
        apart = held_out(labels, TEST_SHARE, seed)
        source += f"; a stratified fifth held out to test (seed {seed})"
        decoded = [(taken(images, rows), labels[rows]) for rows in (np.flatnonzero(~apart), np.flatnonzero(apart))]
    try:
        _every_class(decoded[0][1], names)
        parts = (*decoded[0], *decoded[1])
        return Dataset(folder.name, *parts, names, mirror=mirror, source=source, skipped=tuple(skipped))
    except ValueError as error:
        raise QuorateError(f"{folder}: {error}") from None


def _parts(folder: Path) -> tuple[_Pictures, _Pictures]:
    """Files of the training and of the test part (empty where it is to be held out)."""
    if not _folders(folder / "train"):
        return _below([folder]), _Pictures([], [])
    validation = [folder / name for name in _VALIDATION if _folders(folder / name)]
    if _folders(folder / "test"):
        return _below([folder / "train", *validation]), _below([folder / "test"])
    return _below([folder / "train"]), _below(validation)


def _folders(folder: Path) -> list[Path]:
    return sorted(f for f in folder.iterdir() if f.is_dir() and f.name[0] != ".") if folder.is_dir() else []


def _below(roots: Sequence[Path]) -> _Pictures:
    endings = picture_endings()
    found = _Pictures([], [])
    for root in roots:
        for kind in _folders(root):
            for path in sorted(kind.rglob("*")):
                if path.suffix.lower() in endings and path.name[0] != "." and path.is_file():
                    found.paths.append(path)
                    found.classes.append(kind.name)
    return found


def _readable(folder: Path, part: _Pictures, skipped: list[str]) -> tuple[_Pictures, bool]:
    """The files whose header makes sense, and whether they are all grey."""
    kept, grey = _Pictures([], []), True
    for path, name in zip(*part, strict=True):
        try:
            grey &= is_grey(path)
        except QuorateError as error:
            skipped.append(_reason(folder, error))
            continue
        kept.paths.append(path)
        kept.classes.append(name)
    return kept, grey


def _names(folder: Path, train: _Pictures, test: _Pictures) -> tuple[str, ...]:
    names = sorted(set(train.classes))
    if len(names) < 2:
        found = f"only {names[0]!r} has any" if names else "none has any"
        raise QuorateError(f"{folder}: needs pictures in a sub-folder for each of at least two classes; {found}")
    if strange := sorted(set(test.classes) - set(names)):
        raise QuorateError(f"{folder}: the test part has classes that the training part has not: {', '.join(strange)}")
    return tuple(names)


def _decode(folder: Path, paths: Sequence[Path], side: int, channels: int, threads: int) -> tuple[Images, list[str]]:
    """Every picture, and beside it why it could not be read (empty where it could)."""
    images = room((len(paths), side, side, channels))

    def into(row: int) -> str:
        try:
            images[row] = read_picture(paths[row], side, channels)
        except QuorateError as error:
            return _reason(folder, error)
        return ""

    with ThreadPoolExecutor(threads) as pool:
        return images, list(pool.map(into, range(len(paths))))


def _reason(folder: Path, error: QuorateError) -> str:
    return str(error).replace(f"{folder}/", "", 1)


def _warn(folder: Path, skipped: Sequence[str]) -> None:
    if skipped:
        more = f"; and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
        listed = "; ".join(skipped[:_SHOWN])
        warnings.warn(
            f"{folder}: {len(skipped)} picture{'s' * (len(skipped) > 1)} left out: {listed}{more}", stacklevel=3
        )


def _every_class(labels: Labels, names: tuple[str, ...]) -> None:
    if lacking := [name for i, name in enumerate(names) if i not in labels]:
        raise ValueError(f"no readable training picture of {', '.join(lacking)}")
