"""What decides: early-exit learners, the DARTS space, exits on any network, and their costs.

    from quorate.nets import DARTS_V2, DartsLearner, attach_exits, cascade, count_macs

Genotypes and their pictures need no torch, and nothing here is imported before it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.nets.adapter import AdaptedLearner, attach_exits
    from quorate.nets.cascades import cascade
    from quorate.nets.cells import drop_path_at
    from quorate.nets.checkpoint_import import load_darts_weights
    from quorate.nets.darts import DartsLearner, exit_cells, reduction_cells
    from quorate.nets.drawing import draw_genotype
    from quorate.nets.forms import using_forms
    from quorate.nets.genotype import PRIMITIVES, Genotype, random_genotype
    from quorate.nets.heads import make_head
    from quorate.nets.hub import import_vision, timm_input, timm_learner, timm_model
    from quorate.nets.learner import Inputs, Learner, align
    from quorate.nets.macs import count_macs, macs_table
    from quorate.nets.named import (
        DARTS_V1,
        DARTS_V2,
        GDAS_V1,
        NAMED_GENOTYPES,
        PC_DARTS_CIFAR,
        PC_DARTS_IMAGENET,
        read_genotype,
    )
    from quorate.nets.ops import make_operation
    from quorate.nets.placing import even_exits
    from quorate.nets.pricing import genotype_macs, operation_macs

__all__ = [
    "DARTS_V1",
    "DARTS_V2",
    "GDAS_V1",
    "NAMED_GENOTYPES",
    "PC_DARTS_CIFAR",
    "PC_DARTS_IMAGENET",
    "PRIMITIVES",
    "AdaptedLearner",
    "DartsLearner",
    "Genotype",
    "Inputs",
    "Learner",
    "align",
    "attach_exits",
    "cascade",
    "count_macs",
    "draw_genotype",
    "drop_path_at",
    "even_exits",
    "exit_cells",
    "genotype_macs",
    "import_vision",
    "load_darts_weights",
    "macs_table",
    "make_head",
    "make_operation",
    "operation_macs",
    "random_genotype",
    "read_genotype",
    "reduction_cells",
    "timm_input",
    "timm_learner",
    "timm_model",
    "using_forms",
]

_HOMES = {
    "adapter": ("AdaptedLearner", "attach_exits"),
    "cascades": ("cascade",),
    "cells": ("drop_path_at",),
    "checkpoint_import": ("load_darts_weights",),
    "darts": ("DartsLearner", "exit_cells", "reduction_cells"),
    "drawing": ("draw_genotype",),
    "forms": ("using_forms",),
    "genotype": ("PRIMITIVES", "Genotype", "random_genotype"),
    "heads": ("make_head",),
    "hub": ("import_vision", "timm_input", "timm_learner", "timm_model"),
    "learner": ("Inputs", "Learner", "align"),
    "macs": ("count_macs", "macs_table"),
    "named": (
        "DARTS_V1",
        "DARTS_V2",
        "GDAS_V1",
        "NAMED_GENOTYPES",
        "PC_DARTS_CIFAR",
        "PC_DARTS_IMAGENET",
        "read_genotype",
    ),
    "ops": ("make_operation",),
    "placing": ("even_exits",),
    "pricing": ("genotype_macs", "operation_macs"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"quorate.nets.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
