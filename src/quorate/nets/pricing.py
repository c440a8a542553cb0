"""What an operation, and a whole architecture, costs in multiply-accumulates: in closed form, without building it.

METHOD: learners. The same numbers as :func:`quorate.nets.count_macs` gives for a network that is built (a test compares
all operations, strides and widths), a thousand times faster: cheap enough to look at every architecture of a search.

Shapes: ``C`` channels of a node, ``side`` the side of the map an operation reads.

This file does not know torch, weights or networks.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from quorate.nets.genotype import NODES, PRIMITIVES, Cell, Genotype

__all__ = ["genotype_macs", "operation_macs", "reductions_of"]


@lru_cache(maxsize=4096)
def operation_macs(name: str, channels: int, stride: int, side: int) -> int:
    """Multiply-accumulates of one operation on a square map, for one sample.

    A depthwise ``k x k`` convolution takes ``k^2 C`` for each pixel it gives, a pointwise one ``C^2``; a separable
    convolution is twice both. A skip of stride 2 is a factorized reduce and takes ``C^2``; all else is free.

    Args:
        name: one of :data:`quorate.nets.PRIMITIVES`.
        channels: of the map it reads and of the map it gives.
        stride: 1 or 2.
        side: of the map it reads.

    Raises:
        ValueError: if the name is unknown.

    Example:
        >>> operation_macs("sep_conv_3x3", channels=16, stride=1, side=32)
        819200
    """
    if name not in PRIMITIVES:
        raise ValueError(f"the operation must be one of {', '.join(PRIMITIVES)}, got {name!r}")
    pixels = (side // stride) ** 2
    match name.split("_"):
        case ["sep" | "dil" as kind, _, size]:
            return (2 if kind == "sep" else 1) * pixels * channels * (int(size[0]) ** 2 + channels)
        case ["skip", _] if stride == 2:
            return pixels * channels**2
    return 0


def reductions_of(cells: int) -> tuple[int, ...]:
    """Which cells halve the map, as :func:`quorate.nets.reduction_cells` has it.

    Example:
        >>> reductions_of(8)
        (2, 5)
    """
    return tuple(sorted({cells // 3, 2 * cells // 3}))


def genotype_macs(
    genotype: Genotype,
    channels: int,
    cells: int,
    side: int,
    classes: int = 10,
    *,
    exits: Literal["after_reductions", "end"] | Sequence[int] = "after_reductions",
    image_channels: int = 3,
) -> tuple[int, ...]:
    """What each branch of a :class:`quorate.nets.DartsLearner` adds, head included; its stem is that of CIFAR.

    Args:
        genotype: the two cells.
        channels: ``C``, of the first cells.
        cells: ``L``.
        side: of the square images.
        classes: number of classes.
        exits: ``after_reductions``, ``end``, or the cells after which they are.
        image_channels: of the images.

    Returns:
        One count per branch; their sum is the whole network.

    Raises:
        ValueError: if ``exits`` is another word.

    Example:
        >>> from quorate.nets import DARTS_V2, genotype_macs
        >>> sum(genotype_macs(DARTS_V2, channels=36, cells=20, side=32, exits="end"))
        528359040
        >>> genotype_macs(DARTS_V2, channels=36, cells=20, side=32)
        (193428288, 180823680, 154115712)
    """
    reductions = reductions_of(cells)
    if isinstance(exits, str) and exits not in ("after_reductions", "end"):
        raise ValueError(f"exits must be 'after_reductions', 'end' or a list of cells, got {exits!r}")
    named = reductions if exits == "after_reductions" else () if exits == "end" else exits
    at = {*named, cells - 1}
    counts, total = [], side**2 * 9 * image_channels * 3 * channels
    before, sides = (3 * channels, 3 * channels), (side, side)
    for index in range(cells):
        reduction = index in reductions
        channels *= 2 if reduction else 1
        side = sides[1]
        total += side**2 * channels * sum(before)  # a factorized reduce halves the pixels it reads, and so its cost
        total += _cell_macs(genotype.reduce if reduction else genotype.normal, channels, side, reduction)
        before, sides = (before[1], NODES * channels), (side, side // 2 if reduction else side)
        if index in at:
            counts.append(total + NODES * channels * classes)
            total = 0
    return tuple(counts)


def _cell_macs(cell: Cell, channels: int, side: int, reduction: bool) -> int:
    after = side // 2 if reduction else side
    return sum(
        operation_macs(name, channels, 2, side)
        if reduction and source < 2
        else operation_macs(name, channels, 1, after)
        for name, source in cell
    )
