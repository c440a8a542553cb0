"""Committees out of runs: the networks that the run describes, with its weights, its policy and its costs.

Shapes: ``E`` exits, ``K`` learners. This file does not know how anything was trained.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from quorate.engine.choices import SourceName
from quorate.engine.committee import Committee
from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.nets.describing import build_network
from quorate.store.run import CommitteeRecord, RunFolder, read_committee
from quorate.store.timings import read_timings
from quorate.store.weights import check_shapes, read_weights

__all__ = ["load_run"]


def load_run(
    path: str | os.PathLike[str],
    *,
    source: SourceName = "lazy",
    workers: int | None = None,
    device: Any = "cpu",
    build: Callable[[int], Learner] | None = None,
) -> Committee:
    """The committee of a finished run, on torch.

    Args:
        path: its folder.
        source: as for :class:`Committee`.
        workers: as for :class:`Committee`.
        device: where the learners run.
        build: gives learner ``k`` with any weights, for networks of the user's own, which no file can build.

    Raises:
        QuorateError: the run is not finished, damaged, or of other networks.

    Example:
        >>> load_run("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/committee.json: cannot be read: No such file or directory; ...
    """
    record = read_committee(RunFolder(path).committee)
    learners = []
    for k, one in enumerate(record.learners):
        learner = _network(Path(path), record, k, build)
        arrays, _ = read_weights(Path(path) / one.weights)
        state = learner.state_dict()
        check_shapes(Path(path) / one.weights, arrays, {name: tuple(x.shape) for name, x in state.items()})
        learner.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in arrays.items()})
        learners.append(learner)
    return Committee(
        learners,
        record.policy,
        record.macs,
        classes=record.classes,
        inputs=[one.input for one in record.learners],
        source=source,
        workers=workers,
        device=device,
        timings=read_timings(path, (len(record.macs), len(record.learners))),
    )


def _network(path: Path, record: CommitteeRecord, k: int, build: Callable[[int], Learner] | None) -> Learner:
    try:
        network = build_network(record.learners[k].network)
    except ValueError as error:
        raise QuorateError(f"{path}: learner {k} {error}") from error
    if network is not None:
        return network
    if build is None:
        raise QuorateError(
            f"{path}: learner {k} is a network of the user's own, which no file can build: "
            "pass build=, a function that gives learner k, or load a bundle that was exported from it"
        )
    return build(k)
