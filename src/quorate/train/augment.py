"""Whole batches cropped, flipped, normalised and cut out at once, on the device they are on.

Random crop after padding with black, random mirror, per-channel normalisation, cutout: in that
order, as the original DARTS code does it image by image. Every draw comes from the generator that is passed; nothing
waits for the host, so a batch may be made inside a CUDA graph.

Shapes: ``B`` images of ``H`` x ``W`` pixels and ``C`` channels. Batches come in as uint8 ``[B, H, W, C]``, the way data
sets keep them, and leave as float32 ``[B, C, H, W]`` in channels-last memory: no pixel is moved for it.

This file does not know data sets, networks or optimisers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad as padded_with

__all__ = ["Augmentation", "Scale", "augment", "augmentation_for", "crop", "cutout", "mirror", "normalise", "scale_for"]


class Augmentation(NamedTuple):
    """What is done to a training image.

    Attributes:
        pad: black pixels on every side before the crop; 0 for no crop.
        mirror: whether half of the images are mirrored.
        cutout: side of the square that is hidden; 0 for none.
    """

    pad: int
    mirror: bool
    cutout: int


class Scale(NamedTuple):
    """Per-channel normalisation of bytes, ``factor * pixel + shift``, as tensors on the device of the batches.

    Attributes:
        factor: ``[C]``, ``1 / (255 * std)``.
        shift: ``[C]``, ``-mean / std``.
    """

    factor: Tensor
    shift: Tensor


def augmentation_for(side: int, *, mirrored: bool) -> Augmentation:
    """The paper's augmentation at its 32x32, in proportion at other sides: pad an eighth, cut out half.

    Args:
        side: the shorter side of the images.
        mirrored: whether mirror images mean the same (``Dataset.mirror``).

    Note:
        The proportion is ours: a cutout of 16 on a 16x16 image would hide 56 % of it on average. The crop and the
        square of the search's supernet are this with ``cutout=0``.

    Example:
        >>> augmentation_for(32, mirrored=True), augmentation_for(8, mirrored=False)
        (Augmentation(pad=4, mirror=True, cutout=16), Augmentation(pad=1, mirror=False, cutout=4))
    """
    return Augmentation(pad=side // 8, mirror=mirrored, cutout=side // 2)


def scale_for(mean: Sequence[float], std: Sequence[float], *, device: torch.device | str = "cpu") -> Scale:
    """Make the normalisation of a data set, once, on a device.

    Args:
        mean: mean of each channel, of pixels in 0..1.
        std: standard deviation of each channel, of pixels in 0..1; positive.
        device: where the batches are.

    Example:
        >>> scale_for([0.5], [0.5]).shift
        tensor([-1.])
    """
    if len(mean) != len(std) or any(spread <= 0 for spread in std):
        raise ValueError(f"mean and std must be one a channel and std positive, got {list(mean)} and {list(std)}")
    exact_mean, exact_std = (torch.tensor(values, dtype=torch.float64) for values in (mean, std))
    factor, shift = 1 / (255 * exact_std), -exact_mean / exact_std
    return Scale(factor.to(device, torch.float32), shift.to(device, torch.float32))


def augment(images: Tensor, how: Augmentation, scale: Scale, generator: torch.Generator) -> Tensor:
    """Crop, mirror, normalise and cut out a batch, each image with draws of its own.

    Args:
        images: uint8 ``[B, H, W, C]``.
        how: what to do.
        scale: the normalisation, on the same device.
        generator: of all draws, on the same device.

    Returns:
        ``[B, C, H, W]`` float32 in channels-last memory.

    Example:
        >>> batch = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
        >>> how, scale = augmentation_for(32, mirrored=True), scale_for([0.5] * 3, [0.25] * 3)
        >>> augment(batch, how, scale, torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3, 32, 32])
    """
    size, height, width, _ = images.shape

    def draw(below: int, count: int) -> Tensor:
        return torch.randint(below, (count, size), generator=generator, device=images.device)

    if how.pad:
        top, left = draw(2 * how.pad + 1, 2).unbind()
        images = crop(images, top, left, how.pad)
    if how.mirror:
        images = mirror(images, draw(2, 1)[0].bool())
    out = normalise(images, scale)
    if how.cutout:
        out = cutout(out, draw(height, 1)[0], draw(width, 1)[0], how.cutout)
    return out


def crop(images: Tensor, top: Tensor, left: Tensor, pad: int) -> Tensor:
    """From every image, padded with black, the window of its own size whose corner is ``(top, left)``.

    Args:
        images: uint8 ``[B, H, W, C]``.
        top: ``[B]`` rows, 0 to ``2 * pad``.
        left: ``[B]`` columns, 0 to ``2 * pad``.
        pad: pixels added on every side; ``top = left = pad`` gives the image back.

    Note:
        In memory a row of a window is ``W * C`` bytes on end, whatever the column it begins at: so the windows are
        ``B * H`` copies of such runs, four times faster than gathering pixel by pixel.

    Example:
        >>> image = torch.tensor([[1, 2], [3, 4]], dtype=torch.uint8).reshape(1, 2, 2, 1)
        >>> crop(image, torch.tensor([2]), torch.tensor([1]), 1).flatten()
        tensor([3, 4, 0, 0], dtype=torch.uint8)
    """
    size, height, width, channels = images.shape
    padded = padded_with(images, (0, 0, pad, pad, pad, pad))
    runs = padded.reshape(-1).unfold(0, width * channels, 1)
    image = torch.arange(size, device=images.device)[:, None] * padded.shape[1]
    row = top[:, None] + torch.arange(height, device=images.device)
    start = ((image + row) * padded.shape[2] + left[:, None]) * channels
    return runs.index_select(0, start.reshape(-1)).view(size, height, width, channels)


def mirror(images: Tensor, which: Tensor) -> Tensor:
    """Mirror the images that ``which`` (``[B]`` bool) marks, left to right.

    Example:
        >>> image = torch.tensor([1, 2], dtype=torch.uint8).reshape(1, 1, 2, 1)
        >>> mirror(image, torch.tensor([True])).flatten()
        tensor([2, 1], dtype=torch.uint8)
    """
    return torch.where(which[:, None, None, None], images.flip(2), images)


def normalise(images: Tensor, scale: Scale) -> Tensor:
    """``(pixel / 255 - mean) / std`` per channel; all that is done to an image that is not trained on.

    Args:
        images: uint8 ``[B, H, W, C]``.
        scale: the normalisation, on the same device.

    Returns:
        ``[B, C, H, W]`` float32 in channels-last memory.

    Note:
        Written for whole rows of ``W * C`` numbers: a loop over three channels innermost takes 2.5 times as long.

    Example:
        >>> normalise(torch.full((1, 1, 1, 1), 51, dtype=torch.uint8), scale_for([0.0], [0.5])).item()
        0.4...
    """
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] != len(scale.factor):
        raise ValueError(
            f"images must be uint8 [B, H, W, {len(scale.factor)}], got {images.dtype} {list(images.shape)}; "
            "channels come last"
        )
    width = images.shape[2]
    rows = images.flatten(2).float()
    rows = torch.addcmul(scale.shift.repeat(width), rows, scale.factor.repeat(width))
    return rows.view(images.shape).permute(0, 3, 1, 2)


def cutout(images: Tensor, row: Tensor, column: Tensor, side: int) -> Tensor:
    """Hide a square of every normalised image behind zeros (the mean colour); what of it lies outside is lost.

    Args:
        images: ``[B, C, H, W]``.
        row: ``[B]`` row of the centre: the square covers rows ``row - side // 2`` to ``row + side // 2 - 1``.
        column: ``[B]`` column of the centre.
        side: of the square; an odd one counts as one less, as in the original code.

    Note:
        The centre is uniform over the image, as in the original code, so squares at the border are cut: at 32x32 a
        square of 16 hides 19 % of the image on average, not 25 %.

    Example:
        >>> cutout(torch.ones(1, 1, 4, 4), torch.tensor([0]), torch.tensor([2]), 2)[0, 0, 0]
        tensor([1., 0., 0., 1.])
    """
    half = side // 2
    _, channels, height, width = images.shape
    at_row = torch.arange(height, device=images.device) - row[:, None]
    at_column = torch.arange(width * channels, device=images.device) // channels - column[:, None]
    in_row, in_column = (((at >= -half) & (at < half)).to(images.dtype) for at in (at_row, at_column))
    rows = images.permute(0, 2, 3, 1).flatten(2)
    kept = rows * (1 - in_row[:, :, None] * in_column[:, None, :])
    return kept.view(-1, height, width, channels).permute(0, 3, 1, 2)
