"""One cell of the supernet: fourteen edges, eight operations on each, mixed or chosen (paper, Eq. 14).

Shapes: ``N`` samples, ``C`` channels of a node, ``H`` x ``W`` the map; ``J`` edges (14), ``O`` operations (8).

Four things make it fast, and all are exact: what an edge does without weights (pools, skips) does not depend on where
the edge leads, so it is done once for each source; every source is rectified once; a mixing weight is the scale of the
batch norm that ends its operation, so it costs no pass of its own; and ``none`` is not computed at all.

This file does not know logits, samples, exits or costs.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets.genotype import NODES, PRIMITIVES
from quorate.nets.joining import concatenated
from quorate.nets.ops import (
    DilatedConv,
    FactorizedReduce,
    Operation,
    PointwiseBlock,
    Pool,
    RectifyingOperation,
    SeparableConv,
    make_operation,
)

__all__ = ["EDGES", "Blend", "MixedCell", "Statistics", "edges_of_node", "use_statistics"]

EDGES: tuple[tuple[int, int], ...] = tuple((node, source) for node in range(2, 2 + NODES) for source in range(node))
"""``(node, source)`` of every edge, in the order of the tables' rows."""

SKIP = PRIMITIVES.index("skip_connect")
POOLS = ("max_pool_3x3", "avg_pool_3x3")
CONVOLUTIONS = tuple(name for name in PRIMITIVES if "conv" in name)

Statistics = Literal["batch", "estimate", "fixed"]


def edges_of_node(node: int) -> range:
    """Rows of the table that lead to a node (2 to 5).

    Example:
        >>> [list(edges_of_node(node)) for node in (2, 3)]
        [[0, 1], [2, 3, 4]]
    """
    first = node * (node - 1) // 2 - 1
    return range(first, first + node)


def use_statistics(network: nn.Module, kind: Statistics) -> None:
    """Say which mean and variance the supernet's batch norms take.

    Args:
        network: whose batch norms.
        kind: ``batch``, those of the batch, nothing remembered (both phases of training); ``estimate``, the same, and
            from now on averaged over all batches (after a change of weights or architecture); ``fixed``, that average.

    Example:
        >>> cell = MixedCell((6, 6), 2, reduction=False, after_reduction=False)
        >>> use_statistics(cell, "estimate")
    """
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.training, module.track_running_stats = kind != "fixed", kind != "batch"
            if kind == "estimate":
                module.momentum = None
                module.reset_running_stats()


def normalised(x_NCHW: Tensor, norm: nn.BatchNorm2d, scale: Tensor | None = None) -> Tensor:
    """``scale * (x - mean) / std``: batch norm whose scale is the weight of the operation it ends."""
    weight: Tensor | None = norm.weight
    momentum = 0.0
    if scale is not None:
        weight = scale.to(torch.float32 if x_NCHW.dtype == torch.bfloat16 else x_NCHW.dtype).expand(x_NCHW.shape[1])
        weight = weight.contiguous()
    mean = variance = None
    if norm.track_running_stats or not norm.training:
        mean, variance = norm.running_mean, norm.running_var
        if norm.training and norm.num_batches_tracked is not None:
            norm.num_batches_tracked.add_(1)
            momentum = 1.0 / float(norm.num_batches_tracked)  # the average of all batches so far
    return F.batch_norm(x_NCHW, mean, variance, weight, norm.bias, norm.training, momentum, norm.eps)


def weighted(operation: Operation, rectified_NCHW: Tensor, scale: Tensor | None) -> Tensor:
    """``scale * operation(x)`` of an operation with weights, from the rectified map; ``None`` is a scale of 1."""
    match operation:
        case SeparableConv():
            x_NCHW = operation.pointwise(operation.depthwise(rectified_NCHW))
            x_NCHW = F.relu(normalised(x_NCHW, operation.norm), inplace=True)
            return normalised(operation.pointwise2(operation.depthwise2(x_NCHW)), operation.norm2, scale)
        case DilatedConv():
            return normalised(operation.pointwise(operation.depthwise(rectified_NCHW)), operation.norm, scale)
        case PointwiseBlock():
            return normalised(operation.conv(rectified_NCHW), operation.norm, scale)
        case FactorizedReduce():
            halves = operation.even(rectified_NCHW), operation.odd(rectified_NCHW[:, :, 1::2, 1::2])
            return normalised(concatenated(halves), operation.norm, scale)
    raise AssertionError(type(operation))


class _Source:
    """A node's map, and what all edges that leave it share, each made when first asked for."""

    def __init__(self, map_NCHW: Tensor, pools: nn.ModuleDict) -> None:
        self.map_NCHW, self.pools = map_NCHW, pools
        self.made: dict[str, Tensor] = {}

    def rectified(self) -> Tensor:
        if "relu" not in self.made:
            self.made["relu"] = F.relu(self.map_NCHW)
        return self.made["relu"]

    def free(self, name: str) -> Tensor:
        """The map after a pool, or as it is for a skip."""
        if name == "skip_connect":
            return self.map_NCHW
        if name not in self.made:
            pool = self.pools[name]
            assert isinstance(pool, Pool)
            assert isinstance(pool.norm, nn.BatchNorm2d)
            self.made[name] = normalised(pool.pool(self.map_NCHW), pool.norm)
        return self.made[name]


class MixedCell(nn.Module):
    """A cell with every operation on every edge.

    Args:
        channels_before: channels of the two inputs, the older one first.
        channels: ``C``, of every node.
        reduction: whether it halves the map.
        after_reduction: whether the cell before it did: then the older input is halved.

    Note:
        Both inputs are taken through a ReLU only, so the cell expects them rectified, as
        :class:`quorate.nets.cells.CellBlock` does. Pools of one source share their batch norm, which has no
        parameters, over all edges that leave it.

    Example:
        >>> cell = MixedCell((6, 6), 2, reduction=True, after_reduction=False)
        >>> x = torch.rand(2, 6, 8, 8)
        >>> cell(x, x, torch.full((14, 8), 1 / 8)).shape, cell.chosen(x, x, [4] * 14).shape
        (torch.Size([2, 8, 4, 4]), torch.Size([2, 8, 4, 4]))
    """

    def __init__(
        self, channels_before: tuple[int, int], channels: int, *, reduction: bool, after_reduction: bool
    ) -> None:
        super().__init__()
        older = FactorizedReduce if after_reduction else PointwiseBlock
        self.older: RectifyingOperation = older(channels_before[0], channels, affine=False)
        self.newer = PointwiseBlock(channels_before[1], channels, affine=False)
        self.edges, self.pools = nn.ModuleList(), nn.ModuleList()
        self.reduction = reduction
        for _, source in EDGES:
            stride = self._stride(source)
            names = CONVOLUTIONS if stride == 1 else ("skip_connect", *CONVOLUTIONS)
            self.edges.append(
                nn.ModuleDict({name: make_operation(name, channels, stride, affine=False) for name in names})
            )
        for source in range(1 + NODES):
            made = {name: make_operation(name, channels, self._stride(source), pool_norm=True) for name in POOLS}
            self.pools.append(nn.ModuleDict(made))

    def _stride(self, source: int) -> int:
        return 2 if self.reduction and source < 2 else 1

    def _sources(self, older_NCHW: Tensor, newer_NCHW: Tensor) -> list[_Source]:
        maps = weighted(self.older, older_NCHW, None), weighted(self.newer, newer_NCHW, None)
        return [_Source(x, self._pools(source)) for source, x in enumerate(maps)]

    def _pools(self, source: int) -> nn.ModuleDict:
        pools = self.pools[source]
        assert isinstance(pools, nn.ModuleDict)
        return pools

    def forward(self, older_NCHW: Tensor, newer_NCHW: Tensor, Z_JO: Tensor) -> Tensor:
        """``node_j = sum over sources i, operations k of Z[i, j][k] * o_k(node_i)`` (Eq. 14), nodes concatenated."""
        sources = self._sources(older_NCHW, newer_NCHW)
        Z = [list(row.unbind()) for row in Z_JO.unbind()]
        for node in range(2, 2 + NODES):
            map_NCHW = self._mixed(node, sources, Z)
            if node < 1 + NODES:
                sources.append(_Source(map_NCHW, self._pools(node)))
        return concatenated([source.map_NCHW for source in sources[2:]] + [map_NCHW])

    def _mixed(self, node: int, sources: list[_Source], Z: list[list[Tensor]]) -> Tensor:
        total: Tensor | None = None
        for source, edge in enumerate(edges_of_node(node)):
            for name, operation in self._operations(edge):
                term = weighted(operation, sources[source].rectified(), Z[edge][PRIMITIVES.index(name)])
                total = term if total is None else total.add_(term)
        assert total is not None
        for source, edge in enumerate(edges_of_node(node)):
            free = [name for name in PRIMITIVES[1:4] if name not in self._names(edge)]
            scales = torch.stack([Z[edge][PRIMITIVES.index(name)] for name in free])
            total = Blend.apply(total, scales, *(sources[source].free(name) for name in free))  # type: ignore[no-untyped-call]
        return total

    def chosen(
        self, older_NCHW: Tensor, newer_NCHW: Tensor, choice: Sequence[int], gates: Sequence[Tensor] | None = None
    ) -> Tensor:
        """The cell with one operation on each edge: what :meth:`forward` gives for a one-hot table.

        Args:
            older_NCHW: the older input, rectified.
            newer_NCHW: the newer input, rectified.
            choice: number of the operation of each edge.
            gates: a factor of 1 for each edge, through which gradients reach it (straight-through).
        """
        sources = self._sources(older_NCHW, newer_NCHW)
        for node in range(2, 2 + NODES):
            sources.append(_Source(self._sum(node, sources, choice, gates), self._pools(min(node, NODES))))
        return concatenated([source.map_NCHW for source in sources[2:]])

    def _sum(self, node: int, sources: list[_Source], choice: Sequence[int], gates: Sequence[Tensor] | None) -> Tensor:
        total, own = None, False  # own: a tensor that nobody else holds, so that it may be added to in place
        rows = list(enumerate(edges_of_node(node)))
        # Convolutions first: the order in which the mixed form adds, so that both give the same bits.
        for source, edge in rows:
            name = PRIMITIVES[choice[edge]]
            if name in self._names(edge):
                operations = dict(self._operations(edge))
                term = weighted(operations[name], sources[source].rectified(), None if gates is None else gates[edge])
                total, own = (term if total is None else total.add_(term)), True
        for source, edge in rows:
            name = PRIMITIVES[choice[edge]]
            if name != "none" and name not in self._names(edge):
                term = sources[source].free(name)
                term = term if gates is None else term * gates[edge]
                total = term if total is None else (total.add_(term) if own else total + term)
                own = own or total is not term
        if total is None:
            step = self._stride(0)
            total = torch.zeros_like(sources[0].map_NCHW[:, :, ::step, ::step])
        return total

    def _operations(self, edge: int) -> list[tuple[str, Operation]]:
        operations = self.edges[edge]
        assert isinstance(operations, nn.ModuleDict)
        return [(name, module) for name, module in operations.items() if isinstance(module, Operation)]

    def _names(self, edge: int) -> set[str]:
        operations = self.edges[edge]
        assert isinstance(operations, nn.ModuleDict)
        return set(operations.keys())


class Blend(torch.autograd.Function):
    """``total + sum over k of scale[k] * map[k]``, in one sweep and without keeping products."""

    @staticmethod
    def forward(ctx, total, scales, *maps):  # type: ignore[no-untyped-def]
        """The sum, in place of ``total``."""
        ctx.save_for_backward(scales, *maps)
        ctx.mark_dirty(total)
        for scale, x in zip(scales.to(maps[0].dtype).unbind(), maps, strict=True):
            total.addcmul_(x, scale)
        return total

    @staticmethod
    def backward(ctx, g):  # type: ignore[no-untyped-def]
        """Of ``total``, of the scales, and of every map."""
        scales, *maps = ctx.saved_tensors
        dots = torch.stack([(g * x).sum() for x in maps]).to(scales.dtype)
        return g, dots, *(g * scale for scale in scales.to(g.dtype).unbind())
