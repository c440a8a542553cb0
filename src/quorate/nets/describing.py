"""Networks in words: what JSON must say of a learner so that it can be built again.

This file does not know where the words are kept, nor weights.
"""

from collections.abc import Mapping
from typing import Any

from quorate.nets.darts import DartsLearner
from quorate.nets.genotype import Genotype
from quorate.nets.hub import timm_learner
from quorate.nets.learner import Learner

__all__ = ["build_network", "describe_network"]


def describe_network(learner: Learner) -> dict[str, Any]:
    """How to build a learner again, as JSON can say it; one of the user's own is only named.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> described = describe_network(DartsLearner(DARTS_V2, channels=4, cells=8))
        >>> described["kind"], described["channels"], described["exits"]
        ('darts', 4, [2, 5, 7])
    """
    if learner.origin is not None:
        return dict(learner.origin)
    if type(learner) is not DartsLearner:
        return {"kind": "own", "type": type(learner).__qualname__, "exits": learner.num_exits}
    return {
        "kind": "darts",
        "genotype": {"normal": [list(e) for e in learner.genotype.normal],
                     "reduce": [list(e) for e in learner.genotype.reduce]},
        "channels": learner.channels,
        "cells": learner.cells,
        "classes": learner.classes,
        "exits": list(learner.exits),
        "stem": learner.stem,
        "image_channels": learner.image_channels,
    }  # fmt: skip


def build_network(described: Mapping[str, Any]) -> Learner | None:
    """The network that :func:`describe_network` described, with fresh weights; None for one of the user's own.

    Raises:
        ValueError: the description makes no network.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> described = describe_network(DartsLearner(DARTS_V2, channels=4, cells=8))
        >>> build_network(described).exits, build_network({"kind": "own"})
        ((2, 5, 7), None)
    """
    sizes = dict(described)
    kind = sizes.pop("kind", None)
    if kind not in ("darts", "timm"):
        return None
    try:
        if kind == "timm":
            return timm_learner(**sizes)
        return DartsLearner(Genotype(**sizes.pop("genotype")), **sizes)
    except (TypeError, ValueError, KeyError) as error:
        raise ValueError(f"cannot be built as it is described ({error}): train it again") from error
