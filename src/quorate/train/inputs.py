"""From the images of a data set to those a learner sees: its size, its channels, its normalisation.

METHOD: final training and data. Images stay uint8 until they are normalised, so that crops, mirrors and cutouts work on
what the learner sees.

Shapes: ``B`` images of ``H`` x ``W`` pixels and ``C`` channels; batches are uint8 ``[B, H, W, C]``.

This file does not know learners' insides, nor what is done with the images.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from quorate.data.dataset import Dataset, Images, Labels
from quorate.store.run import InputSpec

__all__ = ["Part", "input_for", "shown"]


def input_for(
    data: Dataset,
    *,
    size: tuple[int, int] | None = None,
    channels: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> InputSpec:
    """How a learner sees a data set.

    Args:
        data: the images, whose own statistics are taken where none are given.
        size: height and width the learner reads; by default the images' own.
        channels: the learner reads; by default the images' own. Grey images are repeated for a learner of more.
        mean: of each channel, of pixels in 0..1; a pretrained network brings its own.
        std: of each channel.

    Raises:
        ValueError: the images have several channels and the learner reads another number of them.

    Example:
        >>> from quorate.data import load
        >>> spec = input_for(load("digits"), channels=3)
        >>> spec.height, spec.channels, [round(value, 3) for value in spec.mean]
        (8, 3, [0.305, 0.305, 0.305])
    """
    height, width, own = data.shape
    channels = own if channels is None else channels
    _check_channels(own, channels)
    repeats = channels // own if own == 1 else 1
    return InputSpec(
        *(size or (height, width)),
        channels,
        tuple(data.mean) * repeats if mean is None else tuple(mean),
        tuple(data.std) * repeats if std is None else tuple(std),
    )


def shown(images: Tensor, spec: InputSpec) -> Tensor:
    """The images as the learner sees them, still uint8: resized where the sizes differ, grey repeated.

    Args:
        images: uint8 ``[B, H, W, C]``.
        spec: of the learner.

    Example:
        >>> spec = InputSpec(16, 16, 3, (0.5,) * 3, (0.5,) * 3)
        >>> shown(torch.zeros(2, 8, 8, 1, dtype=torch.uint8), spec).shape
        torch.Size([2, 16, 16, 3])
    """
    if tuple(images.shape[1:3]) != (spec.height, spec.width):
        pixels = images.permute(0, 3, 1, 2).float()
        resized = F.interpolate(pixels, (spec.height, spec.width), mode="bilinear", antialias=True)
        images = resized.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    if images.shape[3] != spec.channels:
        _check_channels(images.shape[3], spec.channels)
        images = images.repeat(1, 1, 1, spec.channels)
    return images


def _check_channels(own: int, channels: int) -> None:
    if own not in (1, channels):
        raise ValueError(
            f"a learner of {channels} channels can read images of {channels} or of 1, got images of {own} channels; "
            "convert the images"
        )


class Part:
    """A part of a data set where batches of it are wanted: by reference on a CPU, a copy on any other device.

    Args:
        images: uint8 ``[N, H, W, C]``, in memory or a memory map.
        labels: ``[N]``.
        positions: which of them.
        device: where batches are wanted.

    Example:
        >>> part = Part(np.zeros((4, 8, 8, 1), np.uint8), np.arange(4), np.array([3, 1]), torch.device("cpu"))
        >>> len(part), part.batch(torch.tensor([0]))[1]
        (2, tensor([3]))
    """

    def __init__(self, images: Images, labels: Labels, positions: Labels, device: torch.device) -> None:
        self.device = device
        self.images, self.labels, self.positions = images, labels.astype(np.int64, copy=False), positions
        self.on_device: tuple[Tensor, Tensor] | None = None
        if device.type != "cpu":
            self.on_device = (
                torch.from_numpy(images[positions]).to(device),
                torch.from_numpy(self.labels[positions]).to(device),
            )

    def __len__(self) -> int:
        return len(self.positions)

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Images and labels of some rows of the part; ``rows`` are on the device."""
        if self.on_device is not None:
            return self.on_device[0][rows], self.on_device[1][rows]
        at = self.positions[rows.numpy()]
        return torch.from_numpy(np.asarray(self.images[at])), torch.from_numpy(self.labels[at])
