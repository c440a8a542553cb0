"""Published genotypes of the DARTS space, each in the order its authors wrote it, with its source.

This file knows no network. Cells that use operations outside the space (NASNet, AmoebaNet) are not here.
"""

from pathlib import Path

from quorate.errors import QuorateError
from quorate.nets.genotype import Genotype

__all__ = [
    "DARTS_V1",
    "DARTS_V2",
    "GDAS_V1",
    "NAMED_GENOTYPES",
    "PC_DARTS_CIFAR",
    "PC_DARTS_IMAGENET",
    "read_genotype",
]

DARTS_V1 = Genotype(
    normal=(
        *(("sep_conv_3x3", 1), ("sep_conv_3x3", 0)),
        *(("skip_connect", 0), ("sep_conv_3x3", 1)),
        *(("skip_connect", 0), ("sep_conv_3x3", 1)),
        *(("sep_conv_3x3", 0), ("skip_connect", 2)),
    ),
    reduce=(
        *(("max_pool_3x3", 0), ("max_pool_3x3", 1)),
        *(("skip_connect", 2), ("max_pool_3x3", 0)),
        *(("max_pool_3x3", 0), ("skip_connect", 2)),
        *(("skip_connect", 2), ("avg_pool_3x3", 0)),
    ),
)
"""First-order cells of Liu, Simonyan, Yang, "DARTS: Differentiable Architecture Search", ICLR 2019 (quark0/darts)."""

DARTS_V2 = Genotype(
    normal=(
        *(("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
        *(("sep_conv_3x3", 0), ("sep_conv_3x3", 1)),
        *(("sep_conv_3x3", 1), ("skip_connect", 0)),
        *(("skip_connect", 0), ("dil_conv_3x3", 2)),
    ),
    reduce=(
        *(("max_pool_3x3", 0), ("max_pool_3x3", 1)),
        *(("skip_connect", 2), ("max_pool_3x3", 1)),
        *(("max_pool_3x3", 0), ("skip_connect", 2)),
        *(("skip_connect", 2), ("max_pool_3x3", 1)),
    ),
)
"""Second-order cells of the same paper and repository (quark0/darts)."""

GDAS_V1 = Genotype(
    normal=(
        *(("skip_connect", 0), ("skip_connect", 1)),
        *(("skip_connect", 0), ("sep_conv_5x5", 2)),
        *(("sep_conv_3x3", 3), ("skip_connect", 0)),
        *(("sep_conv_5x5", 4), ("sep_conv_3x3", 3)),
    ),
    reduce=(
        *(("sep_conv_5x5", 0), ("sep_conv_3x3", 1)),
        *(("sep_conv_5x5", 2), ("sep_conv_5x5", 1)),
        *(("dil_conv_5x5", 2), ("sep_conv_3x3", 1)),
        *(("sep_conv_5x5", 0), ("sep_conv_5x5", 1)),
    ),
)
"""Dong and Yang, "Searching for a Robust Neural Architecture in Four GPU Hours", CVPR 2019 (D-X-Y/AutoDL-Projects)."""

PC_DARTS_CIFAR = Genotype(
    normal=(
        *(("sep_conv_3x3", 1), ("skip_connect", 0)),
        *(("sep_conv_3x3", 0), ("dil_conv_3x3", 1)),
        *(("sep_conv_5x5", 0), ("sep_conv_3x3", 1)),
        *(("avg_pool_3x3", 0), ("dil_conv_3x3", 1)),
    ),
    reduce=(
        *(("sep_conv_5x5", 1), ("max_pool_3x3", 0)),
        *(("sep_conv_5x5", 1), ("sep_conv_5x5", 2)),
        *(("sep_conv_3x3", 0), ("sep_conv_3x3", 3)),
        *(("sep_conv_3x3", 1), ("sep_conv_3x3", 2)),
    ),
)
"""CIFAR-10 cells of Xu et al., "PC-DARTS: Partial Channel Connections", ICLR 2020 (yuhuixu1993/PC-DARTS)."""

PC_DARTS_IMAGENET = Genotype(
    normal=(
        *(("skip_connect", 1), ("sep_conv_3x3", 0)),
        *(("sep_conv_3x3", 0), ("skip_connect", 1)),
        *(("sep_conv_3x3", 1), ("sep_conv_3x3", 3)),
        *(("sep_conv_3x3", 1), ("dil_conv_5x5", 4)),
    ),
    reduce=(
        *(("sep_conv_3x3", 0), ("skip_connect", 1)),
        *(("dil_conv_5x5", 2), ("max_pool_3x3", 1)),
        *(("sep_conv_3x3", 2), ("sep_conv_3x3", 1)),
        *(("sep_conv_5x5", 0), ("sep_conv_3x3", 3)),
    ),
)
"""ImageNet cells of the same paper and repository (yuhuixu1993/PC-DARTS)."""

NAMED_GENOTYPES = {
    "DARTS_V1": DARTS_V1,
    "DARTS_V2": DARTS_V2,
    "GDAS_V1": GDAS_V1,
    "PC_DARTS_CIFAR": PC_DARTS_CIFAR,
    "PC_DARTS_IMAGENET": PC_DARTS_IMAGENET,
}
"""Every named genotype by its name."""


def read_genotype(given: str) -> tuple[Genotype, str]:
    """The genotype that a name, a file or a notation means, and what to call it.

    Args:
        given: a name such as DARTS_V2, a file with a genotype as JSON or in the classic notation, or that notation.

    Raises:
        ValueError: it is none of these.
        QuorateError: the file holds no genotype.

    Example:
        >>> read_genotype("darts_v2")[1]
        'DARTS_V2'
    """
    if given.upper() in NAMED_GENOTYPES:
        return NAMED_GENOTYPES[given.upper()], given.upper()
    if "(" in given:
        return Genotype.from_text(given), "genotype"
    path = Path(given)
    if not path.is_file():
        raise ValueError(
            f"{given!r} is neither a file nor a genotype; names are {', '.join(NAMED_GENOTYPES)}, "
            "and a notation reads Genotype(normal=[...], reduce=[...])"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise QuorateError(f"{path} must be text (JSON or the classic notation), but is not") from None
    try:
        return (Genotype.from_json(text) if text.lstrip().startswith("{") else Genotype.from_text(text)), path.stem
    except (ValueError, QuorateError) as error:
        raise QuorateError(f"{path} holds no genotype: {error}") from None
