"""MNIST and Fashion-MNIST: idx files, compressed or not.

An idx file is two zero bytes, the type of its values (8: unsigned byte), the number of dimensions, each
dimension as a big-endian 32-bit integer, then the values.

Checksums: Fashion-MNIST's are in the README of https://github.com/zalandoresearch/fashion-mnist, MNIST's are those that
torchvision checks. They belong to the compressed files as published, and are checked when they are fetched. Files that
somebody has compressed anew (Debian does) or unpacked have others and are just as good: gzip carries a checksum of its
own, and the header says how many bytes must follow.

This file does not know splits or augmentation.
"""

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from quorate.data.dataset import Dataset
from quorate.data.files import Layout, Remote, find
from quorate.errors import QuorateError

__all__ = ["FASHION_REMOTE", "MNIST_REMOTE", "load_fashion_mnist", "load_mnist", "read_idx"]

_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
_FASHION_HOME = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
_MNIST_HOME = "https://ossci-datasets.s3.amazonaws.com/mnist"
_FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
_MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
FASHION_REMOTE = Remote(
    "fashion-mnist",
    tuple((f"{_FASHION_HOME}/{file}.gz", md5) for file, md5 in zip(_FILES, _FASHION_MD5, strict=True)),
)
# The author's own server asks for a password nowadays; this is the mirror that torchvision uses.
MNIST_REMOTE = Remote(
    "mnist", tuple((f"{_MNIST_HOME}/{file}.gz", md5) for file, md5 in zip(_FILES, _MNIST_MD5, strict=True))
)


def load_fashion_mnist(root: Path, verify: bool = True) -> Dataset:
    """Fashion-MNIST: 60,000 + 10,000 grey pictures of clothes, 28x28, in ten classes.

    Args:
        root: the folder that holds ``fashion-mnist`` (or torchvision's ``FashionMNIST/raw``).
        verify: taken for the sake of a common signature; these files guard themselves.

    Example:
        >>> load_fashion_mnist(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: fashion-mnist is not in /nowhere: there is no folder fashion-mnist ...
    """
    return _load("fashion-mnist", root, ("fashion-mnist", "FashionMNIST/raw"), _FASHION, mirror=True)


def load_mnist(root: Path, verify: bool = True) -> Dataset:
    """MNIST: 60,000 + 10,000 grey handwritten digits, 28x28. No mirror images: a mirrored 2 is no 2.

    Args:
        root: the folder that holds ``mnist`` (or torchvision's ``MNIST/raw``).
        verify: taken for the sake of a common signature; these files guard themselves.

    Example:
        >>> load_mnist(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: mnist is not in /nowhere: there is no folder mnist ...
    """
    return _load("mnist", root, ("mnist", "MNIST/raw"), tuple("0123456789"), mirror=False)


def _load(name: str, root: Path, folders: tuple[str, ...], classes: tuple[str, ...], mirror: bool) -> Dataset:
    layout, found = find(name, root, [Layout(folder, _FILES, ("", ".gz")) for folder in folders])
    train_images, train_labels, test_images, test_labels = (read_idx(path) for path in found.values())
    try:
        return Dataset(
            name,
            train_images[..., None],
            train_labels.astype(np.int64),
            test_images[..., None],
            test_labels.astype(np.int64),
            classes,
            mirror=mirror,
            source=f"idx files in {layout.folder}",
        )
    except ValueError as error:
        raise QuorateError(f"{root / layout.folder}: {error}") from None


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """The array of unsigned bytes in an idx file, compressed when its name ends in ``.gz``.

    Raises:
        QuorateError: it is no idx file, is cut short, or holds something else than bytes.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "labels"
        ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
        ...     read_idx(path)
        array([7, 9], dtype=uint8)
    """
    try:
        blob = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise QuorateError(f"{path}: damaged or cut short ({error}); remove it and fetch the data set again") from None
    if len(blob) < 4 or blob[:3] != b"\0\0\x08":
        raise QuorateError(f"{path}: an idx file of bytes begins with 00 00 08, this one with {blob[:3].hex(' ')}")
    begin = 4 + 4 * blob[3]
    if len(blob) < begin:
        raise QuorateError(f"{path}: ends inside its header; remove it and fetch the data set again")
    shape = struct.unpack(f">{blob[3]}I", blob[4:begin])
    if len(blob) - begin != int(np.prod(shape, dtype=object)):
        raise QuorateError(f"{path}: its header promises {list(shape)} bytes, {len(blob) - begin} follow")
    return np.frombuffer(blob, np.uint8, offset=begin).reshape(shape).copy()  # bytes cannot be written to
