"""The supernet: all architectures of the DARTS space in one network with exits (paper, section 5, Eq. 14).

Shapes: ``N`` samples; ``T`` tables (2: normal and reduction cells), ``J`` edges (14), ``O`` operations (8).

Cells of one type share one row of weights: table 0 is that of normal cells, table 1 that of reduction cells. The exits
and heads are those of :class:`quorate.nets.DartsLearner`. Batch norm has no parameters except in the stem, and pools
are followed by one.

This file does not know logits, samples, losses or costs.
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from quorate.nets.darts import exit_cells, reduction_cells
from quorate.nets.genotype import NODES, PRIMITIVES
from quorate.nets.heads import MapHead
from quorate.nets.learner import check_count
from quorate.nets.stems import CifarStem
from quorate.quest.mixing import EDGES, MixedCell, normalised, use_statistics

__all__ = ["TABLE", "Choice", "Supernet"]

TABLE = (2, len(EDGES), len(PRIMITIVES))
"""Shape of what says how operations are mixed: tables, edges, operations."""

Choice = Sequence[Sequence[int]]
"""One operation for each edge of each table, ``[T][J]``."""


class Supernet(nn.Module):
    """Every architecture at once, with exits.

    Args:
        channels: ``C``, of the first cells (the paper's search: 16).
        cells: ``L`` (8).
        classes: number of classes.
        exits: ``after_reductions``, or ``end`` for one head.
        image_channels: of the images.
        recompute: keep the inputs of cells only, and run each cell again in the backward pass: a fraction of the
            memory for a third more time.

    Example:
        >>> import torch
        >>> net = Supernet(channels=2, cells=3, classes=10)
        >>> x = torch.randn(4, 3, 8, 8)
        >>> [tuple(logits.shape) for logits in net(x, torch.full((2, 14, 8), 1 / 8))]
        [(4, 10), (4, 10)]
        >>> [tuple(logits.shape) for logits in net.chosen(x, [[4] * 14, [3] * 14])]
        [(4, 10), (4, 10)]
    """

    def __init__(
        self,
        channels: int = 16,
        cells: int = 8,
        classes: int = 10,
        *,
        exits: Literal["after_reductions", "end"] = "after_reductions",
        image_channels: int = 3,
        recompute: bool = False,
    ) -> None:
        super().__init__()
        check_count("channels", channels)
        check_count("image_channels", image_channels)
        check_count("classes", classes, 2)
        self.exits = exit_cells(cells, exits)
        self.channels, self.num_cells, self.classes, self.recompute = channels, cells, classes, recompute
        self.stem = CifarStem(channels, len(reduction_cells(cells)), image_channels)
        self.cells, self.heads = nn.ModuleList(), nn.ModuleList()
        before, halved = self.stem.gives, False
        for index in range(cells):
            reduction = index in reduction_cells(cells)
            channels *= 2 if reduction else 1
            self.cells.append(MixedCell(before, channels, reduction=reduction, after_reduction=halved))
            before, halved = (before[1], NODES * channels), reduction
            if index in self.exits:
                self.heads.append(MapHead(before[1], classes))
        use_statistics(self, "batch")

    @property
    def num_exits(self) -> int:
        """How many exits there are."""
        return len(self.exits)

    def forward(self, x_NCHW: Tensor, Z_TJO: Tensor) -> tuple[Tensor, ...]:
        """Logits of every exit, every operation evaluated and mixed by ``Z`` (Eq. 14)."""
        return self._through(x_NCHW, [Z_TJO[table] for table in range(len(Z_TJO))], None)

    def chosen(self, x_NCHW: Tensor, choice: Choice, gates_TJ: Tensor | None = None) -> tuple[Tensor, ...]:
        """Logits of every exit, one operation evaluated on each edge: what a one-hot ``Z`` gives, bit for bit.

        Args:
            x_NCHW: the images.
            choice: number of the operation of each edge, ``[T][J]``.
            gates_TJ: factors of 1 through which gradients reach the edges (straight-through).
        """
        return self._through(x_NCHW, choice, None if gates_TJ is None else [list(row) for row in gates_TJ])

    def _through(
        self, x_NCHW: Tensor, how: Sequence[Tensor] | Choice, gates: list[list[Tensor]] | None
    ) -> tuple[Tensor, ...]:
        newer = normalised(self.stem.conv(self.stem.checked(x_NCHW)), self.stem.norm)
        older, heads, logits = F.relu(newer), iter(self.heads), []
        for index, cell in enumerate(self.cells):
            assert isinstance(cell, MixedCell)
            rectified = F.relu(newer)
            older, newer = rectified, self._cell(cell, older, rectified, how, gates)
            if index in self.exits:
                logits.append(next(heads)(newer))
        return tuple(logits)

    def _cell(
        self, cell: MixedCell, older: Tensor, newer: Tensor, how: Sequence[Tensor] | Choice,
        gates: list[list[Tensor]] | None,
    ) -> Tensor:  # fmt: skip
        table = int(cell.reduction)
        one = how[table]
        arguments = (older, newer, one) if isinstance(one, Tensor) else (older, newer, one, gates and gates[table])
        run = cell if isinstance(one, Tensor) else cell.chosen
        if self.recompute and self.training:
            y: Tensor = checkpoint(run, *arguments, use_reentrant=False, preserve_rng_state=False)
            return y
        return run(*arguments)
