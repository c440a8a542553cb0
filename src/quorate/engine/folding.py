"""Convolutions that take their batch norm in: fewer passes over memory, the same numbers up to rounding.

``norm(conv(x)) = g (W x + b - mean) / sqrt(var + eps) + beta`` is a convolution with weights ``W g / sqrt(var + eps)``.

Folded is what is known to run one after the other: the blocks of the DARTS space. Other networks stay as they are.
This file does not know learners or devices.
"""

import torch
from torch import Tensor, nn

from quorate.nets.ops import DilatedConv, FactorizedReduce, PointwiseBlock, SeparableConv
from quorate.nets.stems import CifarStem, ImagenetStem

__all__ = ["fold"]

PAIRS: dict[type[nn.Module], tuple[tuple[str, str], ...]] = {
    PointwiseBlock: (("conv", "norm"),),
    SeparableConv: (("pointwise", "norm"), ("pointwise2", "norm2")),
    DilatedConv: (("pointwise", "norm"),),
    CifarStem: (("conv", "norm"),),
    ImagenetStem: (("conv1", "norm1"), ("conv2", "norm2"), ("conv3", "norm3")),
}


def fold(network: nn.Module) -> nn.Module:
    """Fold every batch norm of a network in evaluation that is known to follow a convolution; the network is changed.

    Example:
        >>> from quorate.nets.ops import PointwiseBlock
        >>> block, x = PointwiseBlock(4, 8).eval(), torch.randn(2, 4, 5, 5)
        >>> wanted = block(x)
        >>> bool(torch.allclose(fold(block)(x), wanted, atol=1e-5)), block.norm
        (True, Identity())
    """
    with torch.no_grad():
        for block in network.modules():
            for conv, norm in PAIRS.get(type(block), ()):
                _fold_into(block, [conv], norm)
            if isinstance(block, FactorizedReduce):
                _fold_into(block, ["even", "odd"], "norm")
    return network


def _fold_into(block: nn.Module, convs: list[str], name: str) -> None:
    """Fold a norm of all channels into the convolutions whose outputs it reads, concatenated."""
    norm = getattr(block, name)
    if not isinstance(norm, nn.BatchNorm2d) or norm.running_var is None or norm.running_mean is None:
        return
    scale_C = torch.rsqrt(norm.running_var + norm.eps)
    scale_C = scale_C if norm.weight is None else scale_C * norm.weight
    shift_C = -norm.running_mean * scale_C
    shift_C = shift_C if norm.bias is None else shift_C + norm.bias
    start = 0
    for conv in (getattr(block, one) for one in convs):
        stop = start + conv.out_channels
        bias: Tensor = conv.bias * scale_C[start:stop] if conv.bias is not None else 0 * scale_C[start:stop]
        conv.weight = nn.Parameter(conv.weight * scale_C[start:stop, None, None, None], requires_grad=False)
        conv.bias = nn.Parameter(bias + shift_C[start:stop], requires_grad=False)
        start = stop
    setattr(block, name, nn.Identity())
