"""What each phase of a run does up to its bundle and its milliseconds, by the packages that know how.

This file joins values of a configuration to functions that take values; it decides nothing.
"""

import shutil
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from quorate.engine.runs import load_run
from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.quest.search import search
from quorate.recipes.committee import Made, make_learners
from quorate.recipes.config import RunConfig
from quorate.recipes.measuring import measure_run
from quorate.recipes.phases import Phase, Work
from quorate.recipes.tuning import tune_run
from quorate.store.run import read_committee
from quorate.store.timings import read_timings
from quorate.train import train_committee
from quorate.train.again import votes_of_run

__all__ = ["device_of", "own_learners", "works_of"]


def works_of(config: RunConfig) -> Mapping[str, Phase]:
    """The phases of a run that make something, with what each does; evaluating and reporting are the shell's.

    Example:
        >>> "search" in works_of(RunConfig()), "search" in works_of(RunConfig(genotype=("DARTS_V2",)))
        (True, False)
    """
    works: dict[str, Phase] = {
        "search": _search,
        "train": _train,
        "tune": _tune,
        "export": _export,
        "bench": _measure,
    }
    left_out = ("search",) * (not config.searches) + ("bench",) * (not config.measuring.batches)
    return {name: work for name, work in works.items() if name not in left_out}


def device_of(config: RunConfig) -> str:
    """Where a run computes.

    Example:
        >>> device_of(RunConfig(device="cpu"))
        'cpu'
    """
    return config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


def own_learners(work: Work) -> dict[int, Learner]:
    """By number, the networks that no file can build, made anew; a run of them remembers how the user named them."""
    record = read_committee(work.place.committee)
    if all(one.network.get("kind") != "own" for one in record.learners):
        return {}
    return dict(enumerate(_made(work, pretrain=False).learners))


def _search(work: Work) -> None:
    config = work.config
    with work.shell.steps() as listen:
        search(
            work.data,
            config.search,
            work.place.path,
            learners=config.learner_count,
            selectors=[config.selector],
            device=device_of(config),
            threads=config.threads,
            listen=listen or (lambda what, done, total: None),
        )


def _train(work: Work) -> None:
    config, made = work.config, _made(work)
    with work.shell.training() as listen:
        train_committee(
            made.learners,
            work.data,
            config.training,
            work.place.path,
            inputs=made.inputs,
            names=made.names,
            device=device_of(config),
            jobs=config.jobs,
            threads=config.threads,
            about={"weights": made.weights},
            listen=listen,
        )


def _made(work: Work, *, pretrain: bool = True) -> Made:
    return make_learners(work.config, work.data, work.place.path, pretrain=pretrain)


def _tune(work: Work) -> None:
    wish, policies = work.config.wish.as_wish(), work.config.wish.policies
    votes = votes_of_run(work.place.path, data=work.data, own=own_learners(work)).of("calibration")
    if wish.cost == "milliseconds":
        timings = read_timings(work.place.path, (votes.macs.shape[0], votes.macs.shape[1]))
        if not timings:  # branches cost the same whoever decides: the bundle is measured with the rule it has so far
            _export(work)
            _measure(work)
            timings = read_timings(work.place.path)
        if not timings:
            raise QuorateError(
                f"{work.place.path}: these networks became no bundle, so no milliseconds can be measured: wish in "
                "another cost with --wish.cost, or measure with `quorate bench` first"
            )
        votes = votes._replace(milliseconds=dict(timings[0].milliseconds))
    with work.shell.steps() as progress:
        tune_run(work.place.path, votes, wish, policies, progress=progress)


def _export(work: Work) -> None:
    own: dict[int, Any] = own_learners(work)
    committee = load_run(work.place.path, build=own.__getitem__ if own else None)
    if work.place.bundle.exists():
        shutil.rmtree(work.place.bundle)
    try:
        with work.shell.steps() as progress:
            committee.export(work.place.bundle, progress=progress)
    except ValueError as error:
        if not own:
            raise
        # Networks of the user's own may hold what no graph can say; the run itself is whole without its bundle.
        warnings.warn(f"no bundle was made: {error}", RuntimeWarning, stacklevel=2)
    except ModuleNotFoundError as error:
        raise QuorateError(f"exporting needs {error.name}: pip install 'quorate[all]'") from error


def _measure(work: Work) -> None:
    if not work.place.bundle.exists():
        return  # these networks became no bundle, and it was said
    how = work.config.measuring
    with work.shell.steps() as tick:
        measure_run(work.place, work.data, batches=how.batches, rounds=how.rounds, images=how.images,
                    threads=how.threads, tick=tick)  # fmt: skip
