"""The operations of the DARTS space and the small blocks around them (paper, "DARTS").

Shapes: ``N`` samples, ``C`` channels, ``H`` and ``W`` the sides of a map. Every operation maps ``[N, C, H, W]`` to
``[N, C, H / stride, W / stride]``.

The same classes serve final networks (batch norm with affine parameters, pools alone) and a supernet (``affine=False``,
pools followed by batch norm). The depthwise convolutions take the form that :mod:`quorate.nets.forms` chooses.

This file does not know cells, genotypes or weights of tables.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - the name everybody knows

from quorate.nets.depthwise import DepthwiseConv
from quorate.nets.genotype import PRIMITIVES
from quorate.nets.joining import concatenated

__all__ = ["FactorizedReduce", "Operation", "PointwiseBlock", "RectifyingOperation", "make_operation"]


class Operation(nn.Module):
    """One operation on one edge.

    Attributes:
        rectifies: whether it begins with a ReLU.
        free: whether it has no parameters and costs no multiplication.
    """

    rectifies = False
    free = False


class RectifyingOperation(Operation, ABC):
    """An operation that begins with a ReLU, which callers may share: then :meth:`rectified` is the rest."""

    rectifies = True

    @abstractmethod
    def rectified(self, x_NCHW: Tensor) -> Tensor:
        """What follows the ReLU."""

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return self.rectified(F.relu(x_NCHW))


class PointwiseBlock(RectifyingOperation):
    """ReLU, 1 x 1 convolution, batch norm: how a cell takes its inputs."""

    def __init__(self, channels_in: int, channels: int, *, affine: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels, affine=affine)

    def rectified(self, x_NCHW: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x_NCHW))
        return y


class FactorizedReduce(RectifyingOperation):
    """ReLU, two 1 x 1 convolutions of stride 2, the second on the map shifted by a pixel, concatenated, batch norm.

    The second is a convolution of stride 1 of the pixels it reads, those with odd coordinates: a quarter to copy.

    Raises:
        ValueError: if the number of channels is odd: each convolution gives half of them.
    """

    def __init__(self, channels_in: int, channels: int, *, affine: bool = True) -> None:
        super().__init__()
        if channels % 2:
            raise ValueError(
                f"a factorized reduce gives its channels in two halves, so they must be even, got {channels}; "
                f"use {channels - 1} or {channels + 1}"
            )
        self.even = nn.Conv2d(channels_in, channels // 2, 1, stride=2, bias=False)
        self.odd = nn.Conv2d(channels_in, channels // 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels, affine=affine)

    def rectified(self, x_NCHW: Tensor) -> Tensor:
        halves = (self.even(x_NCHW), self.odd(x_NCHW[:, :, 1::2, 1::2]))
        y: Tensor = self.norm(concatenated(halves))
        return y


class SeparableConv(RectifyingOperation):
    """Twice (ReLU, depthwise k x k, pointwise, batch norm); the stride is on the first depthwise."""

    def __init__(self, channels: int, kernel: int, stride: int, *, affine: bool = True) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, kernel, stride)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels, affine=affine)
        self.depthwise2 = DepthwiseConv(channels, kernel, 1)
        self.pointwise2 = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels, affine=affine)

    def rectified(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.norm(self.pointwise(self.depthwise(x_NCHW)))
        y: Tensor = self.norm2(self.pointwise2(self.depthwise2(F.relu(x_NCHW, inplace=True))))
        return y


class DilatedConv(RectifyingOperation):
    """ReLU, depthwise k x k with dilation 2, pointwise, batch norm."""

    def __init__(self, channels: int, kernel: int, stride: int, *, affine: bool = True) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, kernel, stride, dilation=2)
        self.pointwise = nn.Conv2d(channels, channels, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels, affine=affine)

    def rectified(self, x_NCHW: Tensor) -> Tensor:
        y: Tensor = self.norm(self.pointwise(self.depthwise(x_NCHW)))
        return y


class Pool(Operation):
    """A 3 x 3 pool with padding 1, the average without counting the padding; followed by batch norm in a supernet."""

    def __init__(self, kind: str, channels: int, stride: int, *, norm: bool = False) -> None:
        super().__init__()
        self.pool: nn.Module = (
            nn.MaxPool2d(3, stride, padding=1)
            if kind == "max"
            else nn.AvgPool2d(3, stride, padding=1, count_include_pad=False)
        )
        self.norm = nn.BatchNorm2d(channels, affine=False) if norm else None
        self.free = True

    def forward(self, x_NCHW: Tensor) -> Tensor:
        y: Tensor = self.pool(x_NCHW)
        return y if self.norm is None else self.norm(y)


class Skip(Operation):
    """The map itself."""

    free = True

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return x_NCHW


class Zero(Operation):
    """No edge: a map of zeros of the size an edge would give."""

    free = True

    def __init__(self, stride: int) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return torch.zeros_like(x_NCHW[:, :, :: self.stride, :: self.stride])


def make_operation(name: str, channels: int, stride: int, *, affine: bool = True, pool_norm: bool = False) -> Operation:
    """Build one of the eight operations.

    Args:
        name: one of :data:`quorate.nets.PRIMITIVES`.
        channels: of the map it reads and of the map it gives.
        stride: 1, or 2 on the edges of a reduction cell that leave its inputs.
        affine: whether batch norm has parameters (final networks) or not (a supernet).
        pool_norm: whether pools are followed by batch norm without parameters (a supernet).

    Returns:
        The operation. A ``skip_connect`` of stride 2 is a :class:`FactorizedReduce`.

    Raises:
        ValueError: if the name is unknown, the stride is neither 1 nor 2, or there are no channels.

    Example:
        >>> import torch
        >>> from quorate.nets import make_operation
        >>> make_operation("sep_conv_5x5", 8, 2)(torch.zeros(1, 8, 16, 16)).shape
        torch.Size([1, 8, 8, 8])
    """
    if name not in PRIMITIVES:
        raise ValueError(f"the operation must be one of {', '.join(PRIMITIVES)}, got {name!r}")
    if stride not in (1, 2):
        raise ValueError(f"the stride must be 1 or 2, got {stride}")
    if channels < 1:
        raise ValueError(f"channels must be at least 1, got {channels}")
    match name.split("_"):
        case ["none"]:
            return Zero(stride)
        case ["skip", _]:
            return Skip() if stride == 1 else FactorizedReduce(channels, channels, affine=affine)
        case [("max" | "avg") as kind, _, _]:
            return Pool(kind, channels, stride, norm=pool_norm)
        case [kind, _, size]:
            block = SeparableConv if kind == "sep" else DilatedConv
            return block(channels, int(size[0]), stride, affine=affine)
    raise AssertionError(name)
