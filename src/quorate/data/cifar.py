"""CIFAR-10 and CIFAR-100, in the binary version and in the pickled one.

A binary record is one label byte (CIFAR-100: coarse, then fine) and 3,072 pixels, channel by channel; the
pickled files hold the same pixels as an array and the labels as a list. The pickles are read without executing
anything (:mod:`quorate.data.pickles`). CIFAR-100 is read with its 100 fine classes.

Checksums: those of the archives stand on https://www.cs.toronto.edu/~kriz/cifar.html; those of the files inside are the
ones public loaders check against (the pickled ones are torchvision's).

This file does not know splits or augmentation.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from quorate.data.dataset import Dataset, Images, Labels
from quorate.data.files import Layout, Remote, find, room, verify_md5
from quorate.data.pickles import read_pickle
from quorate.errors import QuorateError

__all__ = ["CIFAR10_REMOTE", "CIFAR100_REMOTE", "load_cifar10", "load_cifar100"]

_PIXELS = 3 * 32 * 32


class _Kind(NamedTuple):
    """What distinguishes the two sets: label bytes, sizes, files and their checksums, names of keys."""

    name: str
    classes: int
    label_bytes: int
    binary: Layout
    pickled: Layout
    train: int  # how many of the files hold training images; then one of test images, then the names
    each: int  # images in a training file
    test: int  # images in the test file
    labels_key: str
    names_key: str


_CIFAR10 = _Kind(
    "cifar10",
    10,
    1,
    Layout(
        "cifar-10-batches-bin", (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin", "batches.meta.txt")
    ),
    Layout("cifar-10-batches-py", (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta")),
    5,
    10_000,
    10_000,
    "labels",
    "label_names",
)
_CIFAR100 = _Kind(
    "cifar100",
    100,
    2,
    Layout("cifar-100-binary", ("train.bin", "test.bin", "fine_label_names.txt")),
    Layout("cifar-100-python", ("train", "test", "meta")),
    1,
    50_000,
    10_000,
    "fine_labels",
    "fine_label_names",
)
_MD5 = {
    "cifar-10-batches-bin": {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    "cifar-10-batches-py": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
    "cifar-100-binary": {
        "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
        "test.bin": "4499cfba6c016c1be1438163640a0898",
    },
    "cifar-100-python": {
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
}
CIFAR10_REMOTE = Remote(
    "cifar-10-batches-bin",
    (("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
    _CIFAR10.binary.files,
)
CIFAR100_REMOTE = Remote(
    "cifar-100-binary",
    (("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
    _CIFAR100.binary.files,
)


def load_cifar10(root: Path, verify: bool = True) -> Dataset:
    """CIFAR-10: 50,000 + 10,000 photographs of 32x32 in ten classes, binary or pickled, whichever is there.

    Args:
        root: the folder that holds ``cifar-10-batches-bin`` or ``cifar-10-batches-py``.
        verify: whether to compare the files with the published checksums.

    Example:
        >>> load_cifar10(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: cifar10 is not in /nowhere: there is no folder cifar-10-batches-bin ...
    """
    return _load(_CIFAR10, root, verify)


def load_cifar100(root: Path, verify: bool = True) -> Dataset:
    """CIFAR-100 with its fine labels: 50,000 + 10,000 photographs of 32x32 in 100 classes.

    Args:
        root: the folder that holds ``cifar-100-binary`` or ``cifar-100-python``.
        verify: whether to compare the files with the published checksums.

    Example:
        >>> load_cifar100(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: cifar100 is not in /nowhere: there is no folder cifar-100-binary ...
    """
    return _load(_CIFAR100, root, verify)


def _load(kind: _Kind, root: Path, verify: bool) -> Dataset:
    layout, found = find(kind.name, root, (kind.binary, kind.pickled))
    if verify:
        verify_md5(found, _MD5[layout.folder])
    paths = list(found.values())
    read = _binary if layout is kind.binary else _pickled
    train_images, train_labels = room((kind.train * kind.each, 32, 32, 3)), np.empty(kind.train * kind.each, np.int64)
    for i, path in enumerate(paths[: kind.train]):
        rows = slice(i * kind.each, (i + 1) * kind.each)
        train_images[rows], train_labels[rows] = read(kind, path, kind.each)
    test_images, test_labels = read(kind, paths[kind.train], kind.test)
    source = f"{layout.folder}, https://www.cs.toronto.edu/~kriz/cifar.html"
    return Dataset(
        kind.name,
        train_images,
        train_labels,
        np.ascontiguousarray(test_images),
        test_labels,
        _names(kind, paths[-1]),
        mirror=True,
        source=source,
    )


def _binary(kind: _Kind, path: Path, count: int) -> tuple[Images, Labels]:
    record = kind.label_bytes + _PIXELS
    raw = np.fromfile(path, np.uint8)
    if raw.size != count * record:
        raise QuorateError(
            f"{path}: must hold {count} records of {record} bytes, {count * record} in all, has {raw.size}"
        )
    records = raw.reshape(count, record)
    return _channels_last(records[:, kind.label_bytes :]), _checked(kind, path, records[:, kind.label_bytes - 1])


def _pickled(kind: _Kind, path: Path, count: int) -> tuple[Images, Labels]:
    batch = read_pickle(path)
    data, labels = batch.get("data"), batch.get(kind.labels_key)
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (count, _PIXELS):
        shape = list(data.shape) if isinstance(data, np.ndarray) else type(data).__name__
        raise QuorateError(f"{path}: 'data' must be uint8 [{count}, {_PIXELS}], is {shape}")
    if not isinstance(labels, list) or len(labels) != count or not all(isinstance(label, int) for label in labels):
        raise QuorateError(f"{path}: {kind.labels_key!r} must be a list of {count} integers")
    return _channels_last(data), _checked(kind, path, np.asarray(labels))


def _channels_last(data: Images) -> Images:
    return data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _checked(kind: _Kind, path: Path, labels: npt.NDArray[np.integer]) -> Labels:
    if labels.min() < 0 or labels.max() >= kind.classes:
        raise QuorateError(f"{path}: labels must lie in 0..{kind.classes - 1}, got {labels.min()}..{labels.max()}")
    return labels.astype(np.int64)


def _names(kind: _Kind, path: Path) -> tuple[str, ...]:
    if path.suffix == ".txt":
        names: object = [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    else:
        names = read_pickle(path).get(kind.names_key)
    if not isinstance(names, list) or len(names) != kind.classes:
        raise QuorateError(f"{path}: must name {kind.classes} classes")
    return tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
