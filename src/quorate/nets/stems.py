"""Stems: from an image to the two maps that the first cell reads.

Shapes: ``N`` images of three channels and sides ``H`` and ``W``; ``C`` channels of the first cell.

A stem also says which sides work: every reduction cell halves the map, and a factorized reduce needs an even side.

This file does not know cells, nor how many of them follow.
"""

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets.forms import memory_format

__all__ = ["CifarStem", "ImagenetStem"]


class Stem(nn.Module):
    """What both stems share: checking images, and laying them out in memory as the device likes it.

    Args:
        reductions: how often the cells halve the map.
        gives: channels of the two maps.
    """

    name = ""

    def __init__(self, reductions: int, gives: tuple[int, int], reads: int) -> None:
        super().__init__()
        self.reductions, self.gives, self.reads = reductions, gives, reads

    def works(self, side: int) -> bool:
        """Whether images of this side can be halved as often as the network does."""
        raise NotImplementedError

    def checked(self, x: Tensor) -> Tensor:
        """The images, checked.

        Raises:
            TypeError: if they are not floating-point numbers.
            ValueError: if they are not ``[N, reads, H, W]`` or a side does not work; it names the nearest that do.
        """
        if not isinstance(x, Tensor) or not x.is_floating_point():
            given = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise TypeError(f"images must be a tensor of floating-point numbers, normalised, got {given}")
        if x.dim() != 4 or x.shape[1] != self.reads:
            raise ValueError(f"images must have shape [N, {self.reads}, H, W], got {tuple(x.shape)}")
        for side in x.shape[2:]:
            if not self.works(side):
                below = next((s for s in range(side - 1, 0, -1) if self.works(s)), None)
                above = next(s for s in range(side + 1, side + 65) if self.works(s))
                near = " and ".join(str(s) for s in (below, above) if s is not None)
                raise ValueError(
                    f"images of {x.shape[2]} x {x.shape[3]} cannot be halved {self.reductions} times with "
                    f"stem={self.name!r}; the nearest sides to {side} that work: {near}"
                )
        return x.contiguous(memory_format=memory_format(x.device))


class CifarStem(Stem):
    """A 3 x 3 convolution to ``3 C`` channels and batch norm; both inputs of the first cell are its output.

    Stems, like branches, give the older map rectified.
    """

    name = "cifar"

    def __init__(self, channels: int, reductions: int, reads: int = 3) -> None:
        super().__init__(reductions, (3 * channels, 3 * channels), reads)
        self.conv = nn.Conv2d(reads, 3 * channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(3 * channels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.norm(self.conv(self.checked(x)))
        return F.relu(y), y

    def works(self, side: int) -> bool:
        return side > 0 and side % (1 << self.reductions) == 0


class ImagenetStem(Stem):
    """Three convolutions of stride 2: the first cell gets maps of a quarter and an eighth of the side."""

    name = "imagenet"

    def __init__(self, channels: int, reductions: int, reads: int = 3) -> None:
        super().__init__(reductions, (channels, channels), reads)
        if channels % 2:
            raise ValueError(
                f"stem='imagenet' gives half of the channels first, so they must be even, got {channels}; "
                f"use {channels - 1} or {channels + 1}"
            )
        self.conv1 = nn.Conv2d(reads, channels // 2, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels // 2)
        self.conv2 = nn.Conv2d(channels // 2, channels, 3, stride=2, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels, 3, stride=2, padding=1, bias=False)
        self.norm3 = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        quarter = F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(self.checked(x)))))))
        return quarter, self.norm3(self.conv3(quarter))

    def works(self, side: int) -> bool:
        quarter = -(-side // 4)
        return side > 0 and quarter % 2 == 0 and (quarter // 2) % (1 << self.reductions) == 0
