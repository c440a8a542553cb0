"""Cells: how a genotype's edges become a block of a network.

Shapes: ``N`` samples, ``C`` channels of a node; a cell maps two tensors, the outputs of the two cells before it, to
``[N, 4 C, H, W]`` (normal) or ``[N, 4 C, H / 2, W / 2]`` (reduction).

This file does not know how many cells a network has, nor where its exits are.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets.genotype import NODES, Genotype
from quorate.nets.joining import concatenated
from quorate.nets.ops import FactorizedReduce, PointwiseBlock, RectifyingOperation, Skip, make_operation

__all__ = ["CellBlock", "DropPath", "drop_path_at"]


def drop_path_at(epoch: int, epochs: int, final: float) -> float:
    """The drop-path probability of an epoch: it grows linearly, ``final * epoch / epochs``.

    Args:
        epoch: from 0 to ``epochs``.
        epochs: how many there are.
        final: the probability it grows to.

    Raises:
        ValueError: if the epoch or the probability is out of range.

    Example:
        >>> from quorate.nets import drop_path_at
        >>> drop_path_at(300, 600, 0.2)
        0.1
    """
    if epochs < 1 or not 0 <= epoch <= epochs:
        raise ValueError(f"the epoch must lie in [0, {epochs}] and there must be at least one, got {epoch} of {epochs}")
    if not 0 <= final < 1:
        raise ValueError(f"the final drop-path probability must lie in [0, 1), got {final}")
    return final * epoch / epochs


class DropPath(nn.Module):
    """Set an edge to zero for some samples in training, and scale the others up so that the mean stays.

    ``y_n = b_n x_n / (1 - p)`` with ``b_n`` one with probability ``1 - p``, drawn per sample.

    Each cell has its own, so that a branch put in evaluation leaves the others as they are. The probability lies in a
    tensor on the device, so that a recorded step (a CUDA graph) sees it change; randomness comes from the framework's
    generator of that device, as for dropout.
    """

    probability: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("probability", torch.zeros(()), persistent=False)
        self.active = False

    def forward(self, x_NCHW: Tensor) -> Tensor:
        if not (self.training and self.active):
            return x_NCHW
        u_N111 = torch.rand(x_NCHW.shape[0], 1, 1, 1, device=x_NCHW.device)
        scale_N111 = (u_N111 >= self.probability) / (1 - self.probability)
        return x_NCHW * scale_N111.to(x_NCHW.dtype)

    def set(self, probability: float) -> None:
        """Set the probability; 0 takes the layer out of the way."""
        if not 0 <= probability < 1:
            raise ValueError(f"the drop-path probability must lie in [0, 1), got {probability}")
        self.active = probability > 0
        self.probability.fill_(probability)


class CellBlock(nn.Module):
    """One cell of a final network: two inputs, four nodes of two edges each, the nodes concatenated.

    Both inputs are taken through a ReLU only, and every map is an input twice, so the cell expects them rectified.

    Args:
        genotype: which edges and operations.
        channels_before: channels of the two inputs, the older one first.
        channels: ``C``, of every node.
        reduction: whether it halves the map.
        after_reduction: whether the cell before it did: then the older input is twice as large, and is halved.
    """

    def __init__(
        self,
        genotype: Genotype,
        channels_before: tuple[int, int],
        channels: int,
        *,
        reduction: bool,
        after_reduction: bool,
    ) -> None:
        super().__init__()
        older = FactorizedReduce if after_reduction else PointwiseBlock
        self.older = older(channels_before[0], channels)
        self.newer = PointwiseBlock(channels_before[1], channels)
        self.edges = nn.ModuleList()
        self.sources: list[int] = []
        for name, source in genotype.reduce if reduction else genotype.normal:
            self.edges.append(make_operation(name, channels, 2 if reduction and source < 2 else 1))
            self.sources.append(source)
        self.drop_path = DropPath()  # of every edge but stride-1 skips

    def forward(self, older_NCHW: Tensor, newer_NCHW: Tensor) -> Tensor:
        states = [self.older.rectified(older_NCHW), self.newer.rectified(newer_NCHW)]
        rectified: dict[int, Tensor] = {}
        for node in range(NODES):
            first, second = (self._edge(i, states, rectified) for i in (2 * node, 2 * node + 1))
            states.append(first + second)
        return concatenated(states[2:])

    def _edge(self, index: int, states: list[Tensor], rectified: dict[int, Tensor]) -> Tensor:
        """One edge's output; edges that begin with a ReLU and read the same node share it."""
        edge, source = self.edges[index], self.sources[index]
        if not isinstance(edge, RectifyingOperation):
            y: Tensor = edge(states[source])
        else:
            if source not in rectified:
                rectified[source] = F.relu(states[source])
            y = edge.rectified(rectified[source])
        return y if isinstance(edge, Skip) else self.drop_path(y)
