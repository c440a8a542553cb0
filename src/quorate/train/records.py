"""What a run says of itself: how to build its networks again, and under which circumstances it was trained.

This file does not know how anything is trained, nor where the words are kept.
"""

import os
import platform
import subprocess
from functools import partial
from typing import Any

import numpy as np
import torch

from quorate import __version__
from quorate.errors import QuorateError
from quorate.nets import DartsLearner, Genotype, Learner
from quorate.store.run import LearnerRecord

__all__ = ["build_network", "circumstances", "describe_network"]


def describe_network(learner: Learner) -> dict[str, Any]:
    """How to build a learner again, as JSON can say it.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> described = describe_network(DartsLearner(DARTS_V2, channels=4, cells=8))
        >>> described["kind"], described["channels"], described["exits"]
        ('darts', 4, [2, 5, 7])
    """
    if not isinstance(learner, DartsLearner):
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


def build_network(record: LearnerRecord, k: int) -> Learner:
    """The network of a record, with fresh weights.

    Args:
        record: of the learner.
        k: its number, for messages.

    Raises:
        QuorateError: it is the user's own, or what the record says makes no network.
    """
    network = dict(record.network)
    if network.pop("kind", None) != "darts":
        raise QuorateError(f"learner {k} is a network of the user's own: bring it along, own={{{k}: learner}}")
    try:
        genotype = Genotype(**network.pop("genotype"))
        return DartsLearner(genotype, **network)
    except (TypeError, ValueError, KeyError) as error:
        raise QuorateError(f"learner {k} cannot be built as committee.json says ({error}): train it again") from error


def circumstances() -> dict[str, Any]:
    """Versions, hardware and the state of the working directory, for whoever repeats the run.

    Example:
        >>> sorted(circumstances())
        ['git', 'hardware', 'versions']
    """
    return {
        "versions": {
            "quorate": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "hardware": {
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "git": _git(),
    }


def _git() -> dict[str, Any] | None:
    """Commit of the working directory and whether it was changed; None outside of one."""
    ask = partial(subprocess.run, capture_output=True, text=True, check=True, timeout=10)
    try:
        commit = ask(["git", "rev-parse", "HEAD"]).stdout.strip()
        return {"commit": commit, "changed": bool(ask(["git", "status", "--porcelain"]).stdout.strip())}
    except (OSError, subprocess.SubprocessError):
        return None
