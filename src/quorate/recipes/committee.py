"""The learners that a run trains, made from its configuration: fresh weights, how each sees images, what it is called.

Shapes: ``K`` learners. This file does not know how anything is searched, trained or judged.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from quorate.data import load
from quorate.data.dataset import Dataset
from quorate.errors import QuorateError
from quorate.nets import Genotype, Learner, read_genotype
from quorate.recipes.architectures import Frame, channels_for, macs_of_genotype, near_macs
from quorate.recipes.config import RunConfig
from quorate.recipes.models import bring, side_read
from quorate.store.run import InputSpec, RunFolder, read_committee
from quorate.store.search import read_genotypes, read_search
from quorate.train import build_learners, input_for

__all__ = ["Made", "architectures_of", "data_of", "found_by_search", "make_learners", "warn_of_overlap"]

USUAL_SIDE = 64


class Made(NamedTuple):
    """Learners made ready for training."""

    learners: list[Learner]
    inputs: list[InputSpec]
    names: list[str]
    weights: list[str]


def data_of(config: RunConfig) -> Dataset:
    """The data set of a run.

    Example:
        >>> data_of(RunConfig()).shape
        (8, 8, 1)
    """
    side = config.side or max(map(side_read, config.model), default=0) or USUAL_SIDE
    return load(config.data, root=config.root, side=side, seed=config.seed)


def make_learners(config: RunConfig, data: Dataset, run: Path, *, pretrain: bool = True) -> Made:
    """The learners that the configuration asks for.

    Args:
        config: of the run.
        data: what they are for.
        run: its folder, where a search has left what it found.
        pretrain: whether pretrained weights are wanted; not where trained ones will replace them.

    Raises:
        QuorateError: nothing was found yet, or another run that is named holds none.

    Example:
        >>> from quorate.data import load
        >>> made = make_learners(RunConfig(genotype=("DARTS_V2",), learners=2, channels=4), load("digits"), Path("run"))
        >>> made.names
        ['0 DARTS_V2', '1 DARTS_V2']
    """
    if config.model:
        weights = config.weights or (None,) * len(config.model)
        brought = [bring(m, data, w, pretrain=pretrain) for m, w in zip(config.model, weights, strict=True)]
        names = [f"{k} {one.name}" for k, one in enumerate(brought)]
        return Made([b.learner for b in brought], [b.spec for b in brought], names, [b.source for b in brought])
    genotypes, names = architectures_of(config, data, run)
    frame = _frame(config, data)
    if config.single:
        total = sum(macs_of_genotype(genotype, frame) for genotype in genotypes)
        frame = frame._replace(channels=channels_for(genotypes[0], total, frame))
        genotypes, names = genotypes[:1], [f"single, {frame.channels} channels"]
    learners = build_learners(
        genotypes,
        channels=frame.channels,
        cells=frame.cells,
        classes=frame.classes,
        image_channels=frame.image_channels,
        exits=config.exits,
        seed=config.seed,
    )
    return Made(list(learners), [input_for(data, channels=data.shape[2])] * len(learners), names, ["none"] * len(names))


def architectures_of(config: RunConfig, data: Dataset, run: Path) -> tuple[list[Genotype], list[str]]:
    """The genotypes, and what to call each.

    Example:
        >>> from quorate.data import load
        >>> architectures_of(RunConfig(genotype=("DARTS_V1",), learners=2), load("digits"), Path("run"))[1]
        ['0 DARTS_V1', '1 DARTS_V1']
    """
    if config.genotype:
        read = [read_genotype(given) for given in config.genotype]
        read = read * config.learner_count if len(read) == 1 else read
        return [genotype for genotype, _ in read], [f"{k} {name}" for k, (_, name) in enumerate(read)]
    if config.match_macs is not None:
        wanted = _macs_of_run(config.match_macs, config.learners)
        genotypes = near_macs(wanted, _frame(config, data), config.seed)
        return genotypes, [f"{k} random" for k in range(len(genotypes))]
    genotypes, selector = found_by_search(config.genotypes or run, config.selector, config.learner_count)
    warn_of_overlap(config.genotypes or run, data, config.seed, config.training.calibration)
    return genotypes, [f"{k} {selector}" for k in range(len(genotypes))]


def warn_of_overlap(run: Path, data: Dataset, seed: int, calibration: float) -> None:
    """Warn where a search saw images on which thresholds are to be chosen: another seed or share splits otherwise.

    Args:
        run: whose search.
        data: that will be trained on; architectures found on another set have seen none of it.
        seed: of the training.
        calibration: share that the training holds out.

    Raises:
        QuorateError: nothing was found yet.

    Example:
        >>> from quorate.data import load
        >>> warn_of_overlap(Path("/nowhere"), load("digits"), 0, 0.1)
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/search/genotypes.json: cannot be read: No such file or directory; ...
    """
    about = read_search(RunFolder(run).genotypes)[1]
    then = about.get("config")
    if about.get("data") != data.name or not isinstance(then, dict):
        return
    odd = {name: (then.get(name), now) for name, now in (("seed", seed), ("calibration", calibration))}
    odd = {name: pair for name, pair in odd.items() if pair[0] != pair[1]}
    if odd:
        told = " and ".join(f"{name} {was!r}, not {now!r}" for name, (was, now) in odd.items())
        warnings.warn(
            f"the search of {run} was made with {told}: it has seen images that are held out here, on which thresholds "
            "will look better than they are; train with the seed and calibration of the search",
            stacklevel=2,
        )


def found_by_search(run: Path, selector: str | None = None, count: int | None = None) -> tuple[list[Genotype], str]:
    """The committee that a search chose, and the selector that chose it.

    Args:
        run: whose search.
        selector: that chose; None: the first that did.
        count: of learners; None: all.

    Raises:
        QuorateError: nothing was found yet, or not by that selector, or not so many.

    Example:
        >>> found_by_search(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/search/genotypes.json: cannot be read: No such file or directory; ...
    """
    path = RunFolder(run).genotypes
    found = read_genotypes(path)
    selector = selector or next(iter(found))
    if selector not in found:
        raise QuorateError(
            f"{path}: holds no committee chosen by {selector}, only by {', '.join(found)}; search with it: "
            f"quorate search --run {run} --selector {selector}"
        )
    genotypes = [Genotype(**document) for document in found[selector]]
    if count is not None and len(genotypes) < count:
        raise QuorateError(
            f"{path}: {selector} chose {len(genotypes)} learners, {count} are wanted; search for that many"
        )
    return genotypes[:count], selector


def _macs_of_run(run: Path, count: int | None) -> Sequence[float]:
    """What each learner of a finished run costs; around again where more are wanted."""
    totals = np.sum(read_committee(RunFolder(run).committee).macs, axis=0).tolist()
    return [totals[k % len(totals)] for k in range(count or len(totals))]


def _frame(config: RunConfig, data: Dataset) -> Frame:
    height, width, channels = data.shape
    if height != width:
        raise ValueError(f"networks of the DARTS space read square images, {data.name} has {height} x {width}")
    return Frame(config.channels, config.cells, height, len(data.classes), config.exits, channels)
