"""What a data set is, once read: a frozen value of uint8 images, integer labels and the names of the classes.

Every reader in this package ends in a :class:`Dataset`, and everything after it (splits, augmentation,
training) starts from one.

Shapes: ``N`` images of ``H`` x ``W`` pixels and ``C`` channels, channels last, as they lie in memory: a batch of them
is a channels-last tensor without moving a byte. Labels are ``[N]``.

This file does not know where images come from, nor what a network, a batch or a device is.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Dataset", "Images", "Labels", "moments"]

Images: TypeAlias = npt.NDArray[np.uint8]
"""``[N, H, W, C]``."""
Labels: TypeAlias = npt.NDArray[np.int64]
"""``[N]``, every one in ``0 .. classes - 1``."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images by class, in a training and a test part.

    Attributes:
        name: what it is called, for people.
        train_images: ``[N, H, W, C]`` uint8, in memory or a memory map.
        train_labels: ``[N]`` int64.
        test_images: ``[M, H, W, C]`` uint8.
        test_labels: ``[M]`` int64.
        classes: their names, in the order of the labels.
        mirror: whether an image and its mirror image mean the same (photographs do, digits do not).
        source: where it comes from and what was done to it, in a sentence.
        skipped: files that could not be read, each with its reason.

    Example:
        >>> import numpy as np
        >>> images, labels = np.zeros((4, 8, 8, 1), np.uint8), np.array([0, 1, 0, 1])
        >>> toy = Dataset("toy", images, labels, images, labels, ("cat", "dog"), mirror=True, source="zeros")
        >>> toy.shape, len(toy.classes), toy.mean
        ((8, 8, 1), 2, (0.0,))
    """

    name: str
    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels
    classes: tuple[str, ...]
    mirror: bool
    source: str
    skipped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Hold every reader and every caller to the same promises."""
        if len(self.classes) < 2:
            raise ValueError(f"{self.name}: needs at least two classes to tell apart, got {list(self.classes)}")
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"{self.name}: class names must differ, got {list(self.classes)}")
        for part in ("train", "test"):
            self._check(part, getattr(self, f"{part}_images"), getattr(self, f"{part}_labels"))
        if self.test_images.shape[1:] != self.shape:
            raise ValueError(
                f"{self.name}: test images must be {list(self.shape)} like the training images, "
                f"got {list(self.test_images.shape[1:])}"
            )

    def _check(self, part: str, images: Any, labels: Any) -> None:
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.ndim != 4:
            given = f"{images.dtype} {list(images.shape)}" if isinstance(images, np.ndarray) else type(images).__name__
            raise ValueError(f"{self.name}: {part} images must be a uint8 array [N, H, W, C], got {given}")
        if not isinstance(labels, np.ndarray) or labels.dtype.kind not in "iu" or labels.shape != (len(images),):
            given = f"{labels.dtype} {list(labels.shape)}" if isinstance(labels, np.ndarray) else type(labels).__name__
            raise ValueError(f"{self.name}: {part} labels must be {len(images)} integers, one an image, got {given}")
        if not images.size:
            raise ValueError(f"{self.name}: the {part} part has no images")
        if labels.min() < 0 or labels.max() >= len(self.classes):
            raise ValueError(
                f"{self.name}: {part} labels must lie in 0..{len(self.classes) - 1}, got {labels.min()}..{labels.max()}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image."""
        _, height, width, channels = self.train_images.shape
        return height, width, channels

    @cached_property
    def _moments(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return moments(self.train_images)

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel over the training images, of pixels in 0..1."""
        return self._moments[0]

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel over the training images, of pixels in 0..1.

        Note:
            A channel without spread gets one grey level, so that dividing by it is harmless.
        """
        return self._moments[1]


def moments(images: Images) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, pixels counted as 0..1; exact, for the sums are integers.

    Example:
        >>> import numpy as np
        >>> moments(np.array([0, 255], np.uint8).reshape(1, 1, 2, 1))
        ((0.5,), (0.5,))
    """
    channels = images.shape[-1]
    total, squares = np.zeros(channels, np.uint64), np.zeros(channels, np.uint64)
    step = max(1, 2**22 // max(1, images[0].size))
    for start in range(0, len(images), step):
        pixels = images[start : start + step].reshape(-1, images[0].size).astype(np.uint32)
        total += pixels.sum(0, dtype=np.uint64).reshape(-1, channels).sum(0)
        squares += (pixels * pixels).sum(0, dtype=np.uint64).reshape(-1, channels).sum(0)
    count = images.size // channels
    means = tuple(int(t) / count / 255 for t in total)
    spreads = (math.sqrt(count * int(q) - int(t) ** 2) / count for t, q in zip(total, squares, strict=True))
    return means, tuple(max(spread, 1.0) / 255 for spread in spreads)
