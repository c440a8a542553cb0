"""Published genotypes of the DARTS space, each in the order its authors wrote it, with its source.

This file knows no network. Cells that use operations outside the space (NASNet, AmoebaNet) are not here.
"""

from quorate.nets.genotype import Genotype

__all__ = ["DARTS_V1", "DARTS_V2", "GDAS_V1", "NAMED_GENOTYPES", "PC_DARTS_CIFAR", "PC_DARTS_IMAGENET"]

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
