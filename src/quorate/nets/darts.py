"""DARTS networks with exits (paper, "DARTS" and "Arch Adapter", Eq. 1).

Shapes: ``N`` samples, ``C`` channels of the first cells, ``L`` cells. Reduction cells stand at ``L // 3`` and
``2 L // 3``; there channels double and the side is halved. Between branches a learner carries the *pair* of tensors
that the next cell reads.

This file does not know training, data or weights from elsewhere (:mod:`quorate.nets.checkpoint_import` does).
"""

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets.cells import CellBlock, DropPath
from quorate.nets.genotype import NODES, Genotype
from quorate.nets.heads import MapHead
from quorate.nets.learner import Learner, check_count
from quorate.nets.pricing import reductions_of
from quorate.nets.stems import CifarStem, ImagenetStem

__all__ = ["DartsBranch", "DartsLearner", "exit_cells", "reduction_cells"]


def reduction_cells(cells: int) -> tuple[int, ...]:
    """Which cells halve the map: ``L // 3`` and ``2 L // 3``.

    Example:
        >>> from quorate.nets import reduction_cells
        >>> reduction_cells(20), reduction_cells(8)
        ((6, 13), (2, 5))
    """
    check_count("cells", cells)
    return reductions_of(cells)


def exit_cells(
    cells: int, exits: Literal["after_reductions", "end"] | Sequence[int] = "after_reductions"
) -> tuple[int, ...]:
    """After which cells the exits are.

    Args:
        cells: ``L``.
        exits: ``after_reductions`` (the paper's ADA set: after each reduction cell and at the end), ``end`` (one head),
            or the cells themselves, in order, the last cell included.

    Raises:
        ValueError: if cells are named that do not exist, twice, out of order, or without the last one.

    Example:
        >>> from quorate.nets import exit_cells
        >>> exit_cells(20), exit_cells(8, [3, 7])
        ((6, 13, 19), (3, 7))
    """
    reductions = reduction_cells(cells)
    if isinstance(exits, str):
        if exits not in ("after_reductions", "end"):
            raise ValueError(f"exits must be 'after_reductions', 'end' or a list of cells, got {exits!r}")
        return tuple(sorted({*(reductions if exits == "after_reductions" else ()), cells - 1}))
    if not hasattr(exits, "__iter__"):
        raise TypeError(f"exits must be 'after_reductions', 'end' or a list of cells, got {exits!r}")
    named = list(exits)
    if not named or any(isinstance(c, bool) or not isinstance(c, int) or not 0 <= c < cells for c in named):
        raise ValueError(f"exits must be cells from 0 to {cells - 1}, got {named}")
    if named != sorted(set(named)):
        raise ValueError(f"exits must be in order and each cell once, got {named}; try {sorted(set(named))}")
    if named[-1] != cells - 1:
        raise ValueError(
            f"the last exit must be after the last cell, {cells - 1}, got {named}: the rest would never run"
        )
    return tuple(named)


class DartsBranch(nn.Module):
    """The cells from one exit to the next, and the head.

    ``branch(older, newer) -> (older, newer, logits)``, the older map rectified, because cells read it so. The first
    branch of a learner reads the image, the last one gives the logits alone.
    """

    def __init__(self, stem: nn.Module | None, cells: Sequence[nn.Module], head: nn.Module, *, last: bool) -> None:
        super().__init__()
        self.stem = stem
        self.cells = nn.ModuleList(cells)
        self.head = head
        self.last = last

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        older, newer = state if self.stem is None else self.stem(state[0])
        for index, cell in enumerate(self.cells):
            rectified = F.relu(newer, inplace=index > 0)
            older, newer = rectified, cell(older, rectified)
        logits = self.head(newer)
        return (logits,) if self.last else (older, newer, logits)


class DartsLearner(Learner):
    """An early-exit network of the DARTS space.

    Args:
        genotype: its two cells.
        channels: ``C``, of the first cells (final networks of the paper: 36; its search: 16).
        cells: ``L`` (20; its search: 8).
        classes: number of classes.
        exits: ``after_reductions``, ``end``, or the cells after which they are; see :func:`exit_cells`.
        stem: ``cifar`` keeps the side, ``imagenet`` divides it by eight.
        image_channels: of the images: 3 for colour, 1 for grey.
        drop_path: probability of dropping an edge in training; :meth:`set_drop_path` changes it.

    Raises:
        ValueError: if sizes are not possible, or ``channels`` are odd for ``stem="imagenet"``.

    Example:
        >>> import torch
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner = DartsLearner(DARTS_V2, channels=4, cells=8, classes=10)
        >>> [tuple(logits.shape) for logits in learner(torch.randn(2, 3, 16, 16))]
        [(2, 10), (2, 10), (2, 10)]
    """

    def __init__(
        self,
        genotype: Genotype,
        channels: int = 36,
        cells: int = 20,
        classes: int = 10,
        *,
        exits: Literal["after_reductions", "end"] | Sequence[int] = "after_reductions",
        stem: Literal["cifar", "imagenet"] = "cifar",
        image_channels: int = 3,
        drop_path: float = 0.0,
    ) -> None:
        if not isinstance(genotype, Genotype):
            raise TypeError(f"genotype must be a Genotype, got {type(genotype).__name__}; see Genotype.from_text")
        check_count("channels", channels)
        check_count("image_channels", image_channels)
        check_count("classes", classes, 2)
        if stem not in ("cifar", "imagenet"):
            raise ValueError(f"stem must be 'cifar' or 'imagenet', got {stem!r}")
        at = exit_cells(cells, exits)
        first = (CifarStem if stem == "cifar" else ImagenetStem)(channels, len(reduction_cells(cells)), image_channels)
        blocks, widths = _cells(genotype, channels, cells, first.gives, stem == "imagenet")
        branches = []
        for begin, end in zip((0, *(a + 1 for a in at)), at, strict=False):
            head = MapHead(widths[end], classes)
            stem_here = first if begin == 0 else None
            branches.append(DartsBranch(stem_here, blocks[begin : end + 1], head, last=end == cells - 1))
        super().__init__(branches, classes)
        self.genotype, self.channels, self.cells, self.stem, self.exits = genotype, channels, cells, stem, at
        self.image_channels = image_channels
        self.set_drop_path(drop_path)

    def set_drop_path(self, probability: float) -> None:
        """Set the probability with which an edge is dropped for a sample in training.

        Example:
            >>> from quorate.nets import DARTS_V2, DartsLearner, drop_path_at
            >>> learner = DartsLearner(DARTS_V2, channels=4, cells=4)
            >>> learner.set_drop_path(drop_path_at(300, 600, 0.2))
        """
        for module in self.modules():
            if isinstance(module, DropPath):
                module.set(probability)


def _cells(
    genotype: Genotype, channels: int, cells: int, gives: tuple[int, int], halved: bool
) -> tuple[list[CellBlock], list[int]]:
    """The cells, and how many channels each gives. ``halved``: the stem's second map is half as wide as its first."""
    blocks: list[CellBlock] = []
    widths: list[int] = []
    before, reductions = gives, reduction_cells(cells)
    for index in range(cells):
        reduction = index in reductions
        channels *= 2 if reduction else 1
        blocks.append(CellBlock(genotype, before, channels, reduction=reduction, after_reduction=halved))
        before, halved = (before[1], NODES * channels), reduction
        widths.append(NODES * channels)
    return blocks, widths
