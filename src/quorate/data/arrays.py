"""Arrays of your own: numpy arrays, ``.npz`` and ``.npy`` files, and any torch ``Dataset`` of (image, label).

Images are uint8 ``[N, H, W, C]`` (or ``[N, H, W]``, grey), labels integers or strings; whatever the
labels are, the classes are the sorted different ones. Pixels are never scaled by guessing: what is not 0..255 is
refused with the line that converts it.

Shapes: ``N`` images of ``H`` x ``W`` pixels and ``C`` channels.

This file does not know splits or augmentation, and never imports torch: what a torch data set yields says itself what
it is.
"""

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from quorate.data.dataset import Dataset, Images, Labels
from quorate.data.files import room, taken
from quorate.data.splits import held_out
from quorate.errors import QuorateError

__all__ = ["from_arrays", "from_torch", "load_arrays"]

TEST_SHARE = 0.2
"""What is held out for the test where the data has no test part of its own."""

_KEYS = {  # as Keras, MedMNIST and people write them
    "train_images": ("train_images", "x_train", "images", "x"),
    "train_labels": ("train_labels", "y_train", "labels", "y"),
    "test_images": ("test_images", "x_test"),
    "test_labels": ("test_labels", "y_test"),
    "classes": ("classes", "class_names"),
}


def from_arrays(
    name: str,
    train_images: npt.ArrayLike,
    train_labels: npt.ArrayLike,
    test_images: npt.ArrayLike | None = None,
    test_labels: npt.ArrayLike | None = None,
    *,
    classes: Sequence[str] | None = None,
    mirror: bool = False,
    source: str = "arrays",
    seed: int = 0,
) -> Dataset:
    """A data set of arrays; without a test part a seeded stratified fifth is held out.

    Args:
        name: what to call it.
        train_images: uint8 ``[N, H, W, C]`` or ``[N, H, W]``; other integers when they lie in 0..255.
        train_labels: ``[N]`` (or ``[N, 1]``) integers or strings.
        test_images: as ``train_images``.
        test_labels: as ``train_labels``; every class must be in the training part too.
        classes: names; labels must then be ``0 .. len(classes) - 1``.
        mirror: whether mirror images mean the same. No, unless you say so.
        source: where they come from, in a sentence.
        seed: of the test part, where it is held out here.

    Example:
        >>> import numpy as np
        >>> toy = from_arrays("toy", np.zeros((10, 4, 4), np.uint8), ["cat", "dog"] * 5)
        >>> toy.classes, toy.train_images.shape, toy.test_labels
        (('cat', 'dog'), (8, 4, 4, 1), array([0, 1]))
    """
    if (test_images is None) != (test_labels is None):
        raise ValueError("test_images and test_labels must be given together")
    images, raw_labels = _images("training", train_images), _flat("training", train_labels)
    names, labels = _classes(raw_labels, classes)
    if not len(images):
        raise ValueError("the training part has no images")
    if len(labels) != len(images):
        raise ValueError(f"training labels must be one an image, got {len(labels)} for {len(images)} images")
    if test_images is not None and test_labels is not None:
        tests = _images("test", test_images), _positions(_flat("test", test_labels), names, classes is not None)
        return Dataset(name, images, labels, *tests, names, mirror=mirror, source=source)
    apart = held_out(labels, TEST_SHARE, seed)
    source += f"; a stratified fifth held out to test (seed {seed})"
    train, test = np.flatnonzero(~apart), np.flatnonzero(apart)
    parts = taken(images, train), labels[train], taken(images, test), labels[test]
    return Dataset(name, *parts, names, mirror=mirror, source=source)


def _images(part: str, images: npt.ArrayLike) -> Images:
    array = np.asanyarray(images)
    if array.dtype.kind == "f":
        raise ValueError(
            f"{part} images must be uint8 pixels 0..255, got {array.dtype}; "
            "convert values 0..1 with (images * 255).round().astype(numpy.uint8)"
        )
    if array.dtype != np.uint8:
        if array.dtype.kind not in "iub" or (array.size and (array.min() < 0 or array.max() > 255)):
            raise ValueError(f"{part} images must be uint8 pixels 0..255, got {array.dtype} beyond that range")
        array = array.astype(np.uint8)
    if array.ndim not in (3, 4):
        raise ValueError(f"{part} images must be [N, H, W, C] or [N, H, W], got {list(array.shape)}")
    if array.ndim == 4 and array.shape[1] in (1, 3, 4) and array.shape[3] > 4:
        raise ValueError(
            f"{part} images look like [N, C, H, W], got {list(array.shape)}; "
            "put channels last with images.transpose(0, 2, 3, 1)"
        )
    return array if array.ndim == 4 else array[..., None]


def _flat(part: str, labels: npt.ArrayLike) -> npt.NDArray[Any]:
    array = np.asarray(labels)
    array = array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array
    if array.ndim != 1 or array.dtype.kind not in "iubUS":
        raise ValueError(f"{part} labels must be one integer or string an image, got {array.dtype} {list(array.shape)}")
    return array


def _classes(labels: npt.NDArray[Any], classes: Sequence[str] | None) -> tuple[tuple[str, ...], Labels]:
    if classes is None:
        different, positions = np.unique(labels, return_inverse=True)
        return tuple(str(value) for value in different.astype(str)), positions.astype(np.int64)
    return tuple(str(name) for name in classes), _positions(labels, tuple(classes), numbered=True)


def _positions(labels: npt.NDArray[Any], names: tuple[str, ...], numbered: bool) -> Labels:
    if numbered:
        if labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be 0..{len(names) - 1} when classes are named, got {labels.dtype}")
        return labels.astype(np.int64)
    place = {name: i for i, name in enumerate(names)}
    texts = labels.astype(str)
    if unknown := sorted(set(texts.tolist()) - set(names)):
        raise ValueError(f"test labels must be among the training ones, got {', '.join(unknown[:5])} besides")
    return np.array([place[text] for text in texts.tolist()], np.int64)


def load_arrays(paths: str, *, mirror: bool = False, seed: int = 0) -> Dataset:
    """The arrays in a ``.npz`` file, or in a pair of ``.npy`` files written ``images.npy,labels.npy``.

    In a ``.npz`` file the arrays are called ``train_images, train_labels, test_images, test_labels`` (MedMNIST) or
    ``x_train, y_train, x_test, y_test`` (Keras) or, without a test part, ``images, labels`` or ``x, y``; ``classes``
    may name the classes. The images of a ``.npy`` file may be larger than memory.

    Args:
        paths: the file, or the two files with a comma between them.
        mirror: whether mirror images mean the same.
        seed: of the test part, where it is held out here.

    Raises:
        QuorateError: a file is missing, damaged, or holds something else.

    Example:
        >>> load_arrays("/nowhere/mine.npz")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/mine.npz: no such file; ...
    """
    files = [Path(path).expanduser() for path in paths.split(",")]
    for file in files:
        if not file.is_file():
            raise QuorateError(f"{file}: no such file; give FILE.npz, or IMAGES.npy,LABELS.npy")
    try:
        parts = _npz(files[0]) if len(files) == 1 else _npy(files)
        return from_arrays(files[0].stem, **parts, mirror=mirror, source=f"arrays in {files[0].name}", seed=seed)
    except (BadZipFile, zlib.error, EOFError, OSError) as error:
        raise QuorateError(f"{paths}: damaged or cut short ({error})") from None
    except ValueError as error:
        reason = "no .npz or .npy file of plain arrays" if "allow_pickle" in str(error) else error
        raise QuorateError(f"{paths}: {reason}") from None


def _npz(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:  # numpy leaves files it cannot read open
        archive = np.load(stream, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("holds one array only; give IMAGES.npy,LABELS.npy")
        chosen = {ours: next((key for key in keys if key in archive), None) for ours, keys in _KEYS.items()}
        if chosen["train_images"] is None or chosen["train_labels"] is None:
            pairs = zip(_KEYS["train_images"], _KEYS["train_labels"], strict=True)
            wanted = " or ".join(f"{images}, {labels}" for images, labels in pairs)
            raise ValueError(f"must hold arrays called {wanted}; holds {', '.join(archive.files) or 'none'}")
        return {ours: archive[key] for ours, key in chosen.items() if key is not None}


def _npy(files: Sequence[Path]) -> dict[str, Any]:
    if len(files) != 2:
        raise ValueError(f"must be one .npz file or two .npy files, got {len(files)} files")
    images, labels = (np.load(file, mmap_mode="r", allow_pickle=False) for file in files)
    return {"train_images": images, "train_labels": labels}


def from_torch(
    name: str,
    train: Any,
    test: Any = None,
    *,
    classes: Sequence[str] | None = None,
    mirror: bool = False,
    seed: int = 0,
) -> Dataset:
    """A data set of any torch ``Dataset`` (or sequence) of (image, label), read once into memory.

    An image is a tensor ``[C, H, W]`` (uint8, or float in 0..1 as torchvision makes it), or a PIL image or an array
    ``[H, W, C]``. Leave out augmentation and normalisation: both happen later, on whole batches.

    Args:
        name: what to call it.
        train: the training images, or all of them.
        test: the test images; without them a seeded stratified fifth is held out.
        classes: names; ``train.classes`` where it has them.
        mirror: whether mirror images mean the same.
        seed: of the test part, where it is held out here.

    Example:
        >>> import torch
        >>> from torch.utils.data import TensorDataset
        >>> pairs = TensorDataset(torch.zeros(10, 3, 4, 4), torch.arange(10) % 2)
        >>> from_torch("toy", pairs).train_images.shape
        (8, 4, 4, 3)
    """
    names = classes if classes is not None else getattr(train, "classes", None)
    tests = (None, None) if test is None else _collect("test", test)
    source = f"{type(train).__module__}.{type(train).__name__}"
    return from_arrays(
        name, *_collect("training", train), *tests, classes=names, mirror=mirror, source=source, seed=seed
    )


def _collect(part: str, pairs: Any) -> tuple[Images, Labels]:
    count = len(pairs)
    if not count:
        raise ValueError(f"the {part} part has no images")
    first = _picture(pairs[0][0], f"{part} image 0")
    images, labels = room((count, *first.shape)), np.empty(count, np.int64)
    for i in range(count):
        image, label = pairs[i]
        picture = _picture(image, f"{part} image {i}")
        if picture.shape != first.shape:
            raise ValueError(
                f"{part} image {i} is {list(picture.shape)}, the first is {list(first.shape)}: all must have one size; "
                "resize and crop them in the data set"
            )
        images[i], labels[i] = picture, int(label)
    return images, labels


def _picture(image: Any, which: str) -> Images:
    """One image as uint8 ``[H, W, C]``."""
    array: npt.NDArray[Any] = np.asarray(image)
    if hasattr(image, "detach") and array.ndim == 3:  # a tensor: channels come first
        array = array.transpose(1, 2, 0)
    array = array[..., None] if array.ndim == 2 else array
    if array.dtype.kind == "f":
        if array.size and not (array.min() >= 0 and array.max() <= 1):
            raise ValueError(f"{which} must lie in 0..1, got {array.min():g}..{array.max():g}; leave out normalisation")
        return np.asarray(np.round(array * 255), np.uint8)
    picture: Images = _images(which, array[None])[0]
    return picture
