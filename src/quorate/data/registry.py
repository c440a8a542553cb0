"""Data sets by name: ``cifar10``, ``folder:photos``, ``arrays:mine.npz``.

A plain table of functions; nothing is read until one is asked for.

This file does not know any format.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from quorate.data.arrays import load_arrays
from quorate.data.cifar import CIFAR10_REMOTE, CIFAR100_REMOTE, load_cifar10, load_cifar100
from quorate.data.dataset import Dataset
from quorate.data.digits import load_digits
from quorate.data.files import Remote, default_root
from quorate.data.folder import load_folder
from quorate.data.idx import FASHION_REMOTE, MNIST_REMOTE, load_fashion_mnist, load_mnist
from quorate.data.imagenet16 import load_imagenet16

__all__ = ["REGISTRY", "Entry", "load", "lookup"]


class Entry(NamedTuple):
    """How to read a data set, and where it comes from.

    Attributes:
        load: reads it from a root folder, verifying checksums or not.
        origin: where to fetch it; a sentence where no program can.
    """

    load: Callable[[Path, bool], Dataset]
    origin: Remote | str


REGISTRY: Mapping[str, Entry] = {
    "digits": Entry(load_digits, "digits come with the package; there is nothing to fetch"),
    "mnist": Entry(load_mnist, MNIST_REMOTE),
    "fashion-mnist": Entry(load_fashion_mnist, FASHION_REMOTE),
    "cifar10": Entry(load_cifar10, CIFAR10_REMOTE),
    "cifar100": Entry(load_cifar100, CIFAR100_REMOTE),
    "imagenet16-120": Entry(
        load_imagenet16,
        "imagenet16-120 is handed out by hand: take the folder ImageNet16 from the Google Drive that "
        "https://github.com/D-X-Y/NATS-Bench names, and put it below the root",
    ),
}


def load(spec: str, *, root: Path | str | None = None, side: int = 64, seed: int = 0, verify: bool = True) -> Dataset:
    """Read a data set by name.

    Args:
        spec: a name of the registry, ``folder:PATH`` (pictures by class), ``arrays:FILE.npz`` or
            ``arrays:IMAGES.npy,LABELS.npy``.
        root: where named data sets lie; ``$QUORATE_DATA``, else ``~/.cache/quorate``.
        side: height and width of images from a folder of pictures.
        seed: of the test part, where a folder or arrays have none of their own.
        verify: whether to compare files with the published checksums.

    Raises:
        ValueError: no such name.
        QuorateError: the data are missing or damaged; says what to do.

    Example:
        >>> load("digits").train_images.shape
        (1438, 8, 8, 1)
    """
    kind, _, rest = spec.partition(":")
    if kind == "folder" and rest:
        return load_folder(Path(rest).expanduser(), side=side, seed=seed)
    if kind == "arrays" and rest:
        return load_arrays(rest, seed=seed)
    return lookup(spec).load(default_root() if root is None else Path(root).expanduser().absolute(), verify)


def lookup(name: str) -> Entry:
    """The entry of a named data set.

    Example:
        >>> lookup("cifar10").origin.folder
        'cifar-10-batches-bin'
    """
    if name not in REGISTRY:
        raise ValueError(f"data must be one of {', '.join(REGISTRY)}, folder:PATH or arrays:FILE, got {name!r}")
    return REGISTRY[name]
