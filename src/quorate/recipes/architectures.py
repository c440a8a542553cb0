"""Which architectures a run trains: found by a search, given, matched in cost at random, or one large network.

METHOD: QUEST and final training. The controls that tell whether searching helped: ``random`` networks of the same
multiply-accumulates, and a single network of all of them together.

Shapes: ``K`` learners. This file does not know weights.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from quorate.nets import Genotype, random_genotype
from quorate.nets.pricing import genotype_macs

__all__ = ["Frame", "channels_for", "macs_of_genotype", "near_macs"]

DRAWN = 2000


class Frame(NamedTuple):
    """What a genotype is put into: all that its cost depends on besides.

    Attributes:
        channels: of the first cells.
        cells: of the network.
        side: of the square images.
        classes: number of classes.
        exits: ``after_reductions``, ``end``, or after which cells.
        image_channels: of the images.
    """

    channels: int
    cells: int
    side: int
    classes: int
    exits: Sequence[int] | Literal["after_reductions", "end"] = "after_reductions"
    image_channels: int = 3


def macs_of_genotype(genotype: Genotype, frame: Frame) -> int:
    """Multiply-accumulates of the whole network, heads included.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> macs_of_genotype(DARTS_V2, Frame(36, 20, 32, 10, "end"))
        528359040
    """
    size = frame.channels, frame.cells, frame.side, frame.classes
    return sum(genotype_macs(genotype, *size, exits=frame.exits, image_channels=frame.image_channels))


def near_macs(wanted: Sequence[float], frame: Frame, seed: int) -> list[Genotype]:
    """Random genotypes, all different, each as near to a wanted cost as 2,000 draws have it.

    Example:
        >>> frame = Frame(16, 8, 32, 10)
        >>> found = near_macs([40e6, 50e6], frame, seed=0)
        >>> [round(macs_of_genotype(g, frame) / 1e6) for g in found]
        [40, 50]
    """
    rng = np.random.default_rng(seed)
    drawn = list(dict.fromkeys(random_genotype(rng) for _ in range(DRAWN)))
    costs = np.array([macs_of_genotype(genotype, frame) for genotype in drawn], dtype=np.float64)
    found: list[Genotype] = []
    for cost in wanted:
        at = int(np.argmin(np.abs(costs - cost)))
        found.append(drawn[at])
        costs[at] = np.inf
    return found


def channels_for(genotype: Genotype, wanted: float, frame: Frame) -> int:
    """The even number of channels at which a network costs nearest to what is wanted.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> channels_for(DARTS_V2, 3 * macs_of_genotype(DARTS_V2, Frame(16, 8, 32, 10)), Frame(16, 8, 32, 10))
        28
    """
    channels = 2
    while macs_of_genotype(genotype, frame._replace(channels=channels)) < wanted:
        channels += 2
    below, above = (
        abs(macs_of_genotype(genotype, frame._replace(channels=c)) - wanted) for c in (channels - 2, channels)
    )
    return channels - 2 if channels > 2 and below < above else channels
