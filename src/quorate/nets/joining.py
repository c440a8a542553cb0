"""Concatenation of channels, with gradients that the layers before it can read fast.

Shapes: ``N`` samples, ``C`` channels of all maps together, ``H`` x ``W`` the maps.

The framework gives each map a slice of the gradient of the whole. In channels-last memory a slice of channels is not
contiguous, and for such gradients batch norm falls back to a form that is ten to forty times slower on a CPU.

This file does not know where that is worth a copy: :mod:`quorate.nets.forms` does.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from quorate.nets.forms import dense_gradients

__all__ = ["concatenated"]


def concatenated(maps: Sequence[Tensor]) -> Tensor:
    """Put maps side by side along channels: ``[N, C_1, H, W], [N, C_2, H, W], ... -> [N, C, H, W]``.

    Example:
        >>> import torch
        >>> from quorate.nets.joining import concatenated
        >>> concatenated([torch.zeros(1, 2, 4, 4), torch.zeros(1, 3, 4, 4)]).shape
        torch.Size([1, 5, 4, 4])
    """
    if not dense_gradients(maps[0].device):
        return torch.cat(tuple(maps), dim=1)
    y: Tensor = _Concatenated.apply(*maps)  # type: ignore[no-untyped-call]
    return y


class _Concatenated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *maps: Tensor) -> Tensor:
        ctx.widths = [x.shape[1] for x in maps]
        return torch.cat(maps, dim=1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        parts = torch.split(gradients[0], ctx.widths, dim=1)
        return tuple(part.contiguous(memory_format=torch.channels_last) for part in parts)
