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
from quorate.nets.describing import build_network
from quorate.nets.learner import Learner
from quorate.store.run import LearnerRecord

__all__ = ["circumstances", "rebuilt"]


def rebuilt(record: LearnerRecord, k: int) -> Learner:
    """The network of a record, with fresh weights.

    Args:
        record: of the learner.
        k: its number, for messages.

    Raises:
        QuorateError: it is the user's own, or what the record says makes no network.
    """
    try:
        network = build_network(record.network)
    except ValueError as error:
        raise QuorateError(f"learner {k} {error}") from error
    if network is None:
        raise QuorateError(f"learner {k} is a network of the user's own: bring it along, own={{{k}: learner}}")
    return network


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
