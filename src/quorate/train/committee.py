"""A whole run: K learners trained as jobs of their own into one directory, with the committee they make.

METHOD: final training, and costs. ``committee.json`` is written when all are trained: the default rule, the cost table,
the names of the classes, each learner's network and input. With the weights it is all that is needed to load the
committee and call it.

Shapes: ``E`` exits, ``K`` learners.

This file does not know how a learner is trained, nor where jobs run.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from quorate.data.dataset import Dataset
from quorate.data.splits import split
from quorate.errors import QuorateError
from quorate.nets import DartsLearner, Genotype, Learner, align
from quorate.nets.describing import describe_network
from quorate.squad import Rule
from quorate.store import write_atomic
from quorate.store.faults import on_disk
from quorate.store.run import (
    CommitteeRecord,
    InputSpec,
    LearnerRecord,
    RunFolder,
    held,
    read_committee,
    read_config,
    write_committee,
    write_config,
)
from quorate.train.config import Training
from quorate.train.evaluation import channels_of, macs_of
from quorate.train.inputs import input_for
from quorate.train.jobs import Tell, run_jobs
from quorate.train.keeping import load_weights
from quorate.train.loop import Fitted, fit
from quorate.train.progress import Listener
from quorate.train.records import circumstances, rebuilt
from quorate.train.state import INITIAL, seed_for

__all__ = ["build_learners", "load_learners", "train_committee"]


def build_learners(
    genotypes: Sequence[Genotype],
    *,
    channels: int = 36,
    cells: int = 20,
    classes: int = 10,
    image_channels: int = 3,
    exits: Literal["after_reductions", "end"] | Sequence[int] = "after_reductions",
    seed: int = 0,
) -> list[DartsLearner]:
    """DARTS learners with fresh weights, each from a stream of its own.

    Args:
        genotypes: one for each learner.
        channels: of the first cells.
        cells: of each network.
        classes: number of classes.
        image_channels: of the images they read; learners of three read grey images as well, repeated.
        exits: after which cells they stand; see :func:`quorate.nets.exit_cells`.
        seed: of the weights.

    Example:
        >>> from quorate.nets import DARTS_V1, DARTS_V2
        >>> [learner.num_exits for learner in build_learners([DARTS_V1, DARTS_V2], channels=2, cells=3)]
        [2, 2]
    """
    learners = []
    for number, genotype in enumerate(genotypes):
        with torch.random.fork_rng([]):
            torch.manual_seed(seed_for(seed, number, INITIAL))
            learners.append(
                DartsLearner(genotype, channels, cells, classes, exits=exits, image_channels=image_channels)
            )
    return learners


def train_committee(
    learners: Sequence[Learner],
    data: Dataset,
    training: Training | None,
    folder: str | os.PathLike[str],
    *,
    inputs: Sequence[InputSpec] | None = None,
    names: Sequence[str] | None = None,
    device: str | torch.device = "cpu",
    jobs: int = 1,
    threads: int | None = None,
    about: Mapping[str, Any] | None = None,
    listen: Listener = lambda told: None,
) -> CommitteeRecord:
    """Train learners in place, each a job of its own, and write the run.

    A run that was stopped goes on when it is called again in the same way; learners that are finished are loaded.

    Args:
        learners: of the same classes and with weights to begin from: see :func:`build_learners`, or bring your own.
        data: the images.
        training: how; by default the paper's way.
        folder: of the run.
        inputs: how each learner sees images; by default as they are.
        names: of the learners, for people.
        device: where they are trained.
        jobs: how many are trained at the same time.
        threads: of all together, on a CPU; by default one for each core. Other numbers give other bits.
        about: what else ``config.json`` shall say, as JSON can.
        listen: told about the progress of each.

    Returns:
        What ``committee.json`` says.

    Raises:
        QuorateError: the folder cannot be written or holds another run; a loss diverged.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.data import load
        >>> from quorate.nets import DARTS_V1, DARTS_V2
        >>> learners = build_learners([DARTS_V1, DARTS_V2], channels=2, cells=3)
        >>> with TemporaryDirectory() as run:
        ...     committee = train_committee(learners, load("digits"), Training(epochs=1, batch=256), run)
        ...     sorted(path.name for path in Path(run).glob("learners/1/[!.]*"))
        ['genotype.json', 'history.jsonl', 'weights.safetensors']
        >>> committee.policy.criterion, len(committee.macs), len(committee.learners)
        ('t-test', 2, 2)
    """
    training = training or Training()
    align(learners)
    specs = _specs(learners, data, inputs)
    if names is not None and len(names) != len(learners):
        raise ValueError(f"names must be one for each of {len(learners)} learners, got {len(names)}")
    place = RunFolder(folder)
    with held(folder):
        _write_beginnings(place, learners, data, training, dict(about or {}))
        items = [
            _Job(k, learner, data, training, spec, str(place.learner(k)), str(device))
            for k, (learner, spec) in enumerate(zip(learners, specs, strict=True))
        ]
        fitted = run_jobs(_train, items, jobs=jobs, threads=threads, listen=listen)
        for k, learner in enumerate(learners):
            load_weights(learner, place.weights(k))  # a job of another process trained a copy
            learner.eval()
        called = list(names) if names is not None else [f"learner {k}" for k in range(len(learners))]
        record = _record(learners, specs, fitted, called, data)
        if (
            place.committee.exists()
            and replace(before := read_committee(place.committee), policy=record.policy) == record
        ):
            record = before  # nothing was trained anew: a policy that was tuned stays
        write_committee(place.committee, record)
    return record


def load_learners(
    folder: str | os.PathLike[str], own: Mapping[int, Learner] | None = None
) -> tuple[list[Learner], CommitteeRecord]:
    """The trained learners of a run, in evaluation mode on the CPU, and what ``committee.json`` says.

    Args:
        folder: of the run.
        own: by number, networks of the user's own, which no file can build.

    Raises:
        QuorateError: the run is not finished, damaged, or of other networks.

    Example:
        >>> load_learners("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/committee.json: cannot be read: No such file or directory; ...
    """
    record = read_committee(RunFolder(folder).committee)
    learners = []
    for k, one in enumerate(record.learners):
        learner = (own or {}).get(k) or rebuilt(one, k)
        load_weights(learner, Path(folder) / one.weights)
        learners.append(learner.eval())
    return learners, record


class _Job(NamedTuple):
    number: int
    learner: Learner
    data: Dataset
    training: Training
    spec: InputSpec
    folder: str
    device: str


def _train(job: _Job, tell: Tell) -> Fitted:
    return fit(
        job.learner,
        job.data,
        job.training,
        number=job.number,
        folder=job.folder,
        spec=job.spec,
        device=job.device,
        listen=tell,
    )


def _specs(learners: Sequence[Learner], data: Dataset, inputs: Sequence[InputSpec] | None) -> list[InputSpec]:
    if inputs is not None and len(inputs) != len(learners):
        raise ValueError(f"inputs must be one for each of {len(learners)} learners, got {len(inputs)}")
    return list(inputs) if inputs else [input_for(data, channels=channels_of(one)) for one in learners]


def _write_beginnings(
    place: RunFolder, learners: Sequence[Learner], data: Dataset, training: Training, about: dict[str, Any]
) -> None:
    """``config.json`` and the genotypes, where they are not there yet; another run there is refused."""
    now = {
        "training": training.model_dump(mode="json"),
        "learners": [describe_network(learner) for learner in learners],
        "data": {"name": data.name, "source": data.source, "classes": list(data.classes), "shape": list(data.shape)},
    }
    before = read_config(place.config) if place.config.exists() else {}
    if "training" in before:
        _check_same(place, before, now)
        return
    for k, learner in enumerate(learners):
        if isinstance(learner, DartsLearner):
            with on_disk(place.learner(k), "written"):
                place.learner(k).mkdir(parents=True, exist_ok=True)
            write_atomic(place.genotype(k), (learner.genotype.to_json() + "\n").encode())
    splits = split(data.train_labels, training.seed, calibration=training.calibration)
    write_config(
        place.config,
        {**before, **now, "splits": splits.digests(), "seed": training.seed, "about": about, **circumstances()},
    )


def _check_same(place: RunFolder, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    changing = {"checkpoint_seconds"}
    odd = []
    if then.get("learners") != now["learners"]:
        odd.append("its learners are others")
    for part in ("training", "data"):
        before = then.get(part, {})
        odd += [
            f"{name} was {before.get(name)!r}, is {value!r}"
            for name, value in now[part].items()
            if name not in changing and before.get(name) != value
        ]
    if odd:
        raise QuorateError(
            f"{place.path} holds another run ({'; '.join(odd[:3])}): train as before to go on, or choose another folder"
        )


def _record(
    learners: Sequence[Learner], specs: Sequence[InputSpec], fitted: Sequence[Fitted], names: Sequence[str],
    data: Dataset,
) -> CommitteeRecord:  # fmt: skip
    records = tuple(
        LearnerRecord(name, describe_network(learner), spec, f"learners/{k}/weights.safetensors",
                      {part: list(shares) for part, shares in done.accuracy.items()})
        for k, (learner, spec, done, name) in enumerate(zip(learners, specs, fitted, names, strict=True))
    )  # fmt: skip
    return CommitteeRecord(
        Rule() if len(learners) > 1 else Rule("mean"),  # one confidence has no deviation
        tuple(tuple(row) for row in macs_of(learners, specs).tolist()),
        data.classes,
        records,
        chained=all(learner.chained for learner in learners),
    )
