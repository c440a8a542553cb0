"""Convolutions that take their batch norm in: fewer passes over memory, the same numbers up to rounding.

``norm(conv(x)) = g (W x + b - mean) / sqrt(var + eps) + beta`` is a convolution with weights ``W g / sqrt(var + eps)``.

Folded is what is known to run one after the other: the blocks of the DARTS space, and modules that the graphs of a cut
network call in a row. Stages and whole models, whose insides are unknown, stay as they are.
This file does not know learners or devices.
"""

from collections import Counter

import torch
from torch import nn

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
            pairs = [([conv], norm) for conv, norm in PAIRS.get(type(block), ())]
            pairs += [(["even", "odd"], "norm")] if isinstance(block, FactorizedReduce) else []
            for convs, norm in pairs:
                if _folded([getattr(block, conv) for conv in convs], getattr(block, norm)):
                    setattr(block, norm, nn.Identity())
        _fold_graphs([module for module in network.modules() if isinstance(module, torch.fx.GraphModule)])
    return network


def _fold_graphs(graphs: list[torch.fx.GraphModule]) -> None:
    """Fold where a graph calls a norm on what a convolution gives, both are called once, and nobody else reads it."""
    uses = Counter(
        id(module)
        for graph in graphs
        for node in graph.graph.nodes
        if node.op == "call_module"
        for module in graph.get_submodule(str(node.target)).modules()
    )
    for graph in graphs:
        for node in list(graph.graph.nodes):
            before = node.args[0] if node.args else None
            if not isinstance(before, torch.fx.Node) or not node.op == before.op == "call_module":
                continue
            conv, norm = graph.get_submodule(str(before.target)), graph.get_submodule(str(node.target))
            alone = len(before.users) == 1 and uses[id(conv)] == uses[id(norm)] == 1
            if alone and type(conv) is nn.Conv2d and _folded([conv], norm):
                node.replace_all_uses_with(before)
                graph.graph.erase_node(node)
        graph.delete_all_unused_submodules()
        graph.recompile()


def _folded(convs: list[nn.Conv2d], norm: nn.Module) -> bool:
    """Fold a norm of all channels into the convolutions whose outputs it reads, concatenated; whether it could be."""
    if not isinstance(norm, nn.BatchNorm2d) or norm.running_var is None or norm.running_mean is None:
        return False
    scale_C = torch.rsqrt(norm.running_var + norm.eps)
    scale_C = scale_C if norm.weight is None else scale_C * norm.weight
    shift_C = -norm.running_mean * scale_C
    shift_C = shift_C if norm.bias is None else shift_C + norm.bias
    start = 0
    for conv in convs:
        mine = slice(start, start + conv.out_channels)
        bias = 0 if conv.bias is None else conv.bias * scale_C[mine]
        conv.weight = nn.Parameter(conv.weight * scale_C[mine, None, None, None], requires_grad=False)
        conv.bias = nn.Parameter(bias + shift_C[mine], requires_grad=False)
        start = mine.stop
    return True
