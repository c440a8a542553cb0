"""``quorate train``: learners from images, stopped and taken up at any moment."""

import json as json_
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, ArgumentCollection, Parameter

from quorate.cli.common import warning_lines
from quorate.cli.settings import beneath, settings_in
from quorate.store.run import RunFolder, read_config
from quorate.train.config import TrainConfig

if TYPE_CHECKING:
    from quorate.data.dataset import Dataset
    from quorate.store.run import CommitteeRecord

__all__ = ["app", "from_file", "warning_lines"]


def from_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Beneath the flags the file that ``--config`` names, beneath that the settings of the run that ``--run`` names."""
    given = {name: argument.tokens[0].value for argument in arguments for name in argument.names if argument.tokens}
    if "--config" in given:
        beneath(app, commands, arguments, settings_in(Path(given["--config"])), given["--config"])
    if "--run" in given and RunFolder(given["--run"]).config.exists():
        settings = read_config(RunFolder(given["--run"]).config).get("run")
        if isinstance(settings, dict):
            known = {name.removeprefix("--") for argument in arguments for name in argument.names}
            table = _of_search(settings) if commands[-1] == "search" else _of_training(settings, given)
            fields = {name: value for name, value in table.items() if name.replace("_", "-") in known}
            beneath(app, commands, arguments, fields, given["--run"])


def _of_search(settings: dict[str, Any]) -> dict[str, Any]:
    return {**settings, **settings["search"]}


def _of_training(settings: dict[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """What `quorate run` would train, as far as `quorate train` can be told."""
    from quorate.recipes.config import RunConfig

    config = RunConfig.model_validate(settings)
    usual = RunConfig()
    beyond = [
        name for name in ("model", "match_macs", "single", "exits") if getattr(config, name) != getattr(usual, name)
    ]
    if beyond:
        raise ValueError(
            f"{given['--run']} is a run with {', '.join(beyond)}, which `quorate train` cannot say: "
            f"`quorate run --config {given['--run']} --run {given['--run']} --to train`"
        )
    table = {**settings, **settings["training"], "learners": config.learner_count}
    if config.genotype or "--genotype" in given:
        del table["selector"]  # nobody selects among what is given
    return table


app = App(name="train", config=from_file, help_format="markdown")


@app.default
def train(
    *,
    settings: Annotated[TrainConfig, Parameter(name="*")] = TrainConfig(),  # noqa: B008 - frozen
    config: Path | None = None,
    votes: bool = False,
    json: bool = False,
) -> None:
    """Train learners and write them as a run: weights, histories, and the committee they make.

    The same command goes on where a run was stopped, whatever stopped it.

    ```
    quorate train --data digits --channels 8 --cells 8 --epochs 20 --learners 3
    quorate train --genotype DARTS_V2 --data cifar10 --root datasets --learners 3 --channels 16 --cells 8 --epochs 30
    quorate train --genotype DARTS_V1 --genotype cell.json --data folder:photos --side 96 --run runs/photos
    quorate train --config photos.toml --epochs 60
    ```

    Args:
        settings: of the run.
        config: a TOML file of the same settings (`epochs = 30`); flags win over it.
        votes: record the votes on the calibration and the test part too, for `quorate replay`.
        json: print the committee that was trained as JSON.
    """
    # Read once, when torch is loaded: on busy cores threads that wait for each other would else burn most of the time.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import torch

    from quorate.data import load
    from quorate.train.committee import build_learners, train_committee
    from quorate.train.config import Training
    from quorate.train.progress import showing

    data = load(settings.data, root=settings.root, side=settings.side, seed=settings.seed)
    run = settings.run or Path("runs") / settings.data.partition(":")[0]
    with warning_lines():
        genotypes, names = _genotypes(settings, run, data)
    learners = build_learners(
        genotypes,
        channels=settings.channels,
        cells=settings.cells,
        classes=len(data.classes),
        image_channels=data.shape[2],
        seed=settings.seed,
    )
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    training = Training(**settings.model_dump(include=set(Training.model_fields)))
    try:
        with showing() as listen, warning_lines():
            committee = train_committee(
                learners,
                data,
                training,
                run,
                names=names,
                device=device,
                jobs=settings.jobs,
                threads=settings.threads,
                about=settings.model_dump(mode="json"),
                listen=listen,
            )
    except KeyboardInterrupt:
        print(f"the same command goes on from the last checkpoint in {run}", file=sys.stderr)
        raise
    if votes:
        _record(learners, data, settings, run)
    if json:
        print(json_.dumps(_as_json(committee, run, votes=votes), indent=1))
        return
    _print_committee(committee)
    if votes:
        print(f"votes: {RunFolder(run).votes}")
    print(f"run: {run}")


def _as_json(committee: "CommitteeRecord", run: Path, *, votes: bool) -> dict[str, Any]:
    members = [
        {"name": one.name, "accuracy": dict(one.accuracy), "macs": [row[k] for row in committee.macs]}
        for k, one in enumerate(committee.learners)
    ]
    return {"run": str(run), "votes": str(RunFolder(run).votes) if votes else None, "learners": members}


def _genotypes(settings: TrainConfig, run: Path, data: "Dataset") -> tuple[list[Any], list[str]]:
    """The architectures that were named; else those that a search found here or elsewhere; else DARTS_V2."""
    from quorate.nets import read_genotype
    from quorate.recipes.committee import found_by_search, warn_of_overlap

    where = settings.genotypes or (run if RunFolder(run).genotypes.exists() and not settings.genotype else None)
    if where is not None:
        genotypes, selector = found_by_search(where, settings.selector, settings.learners)
        warn_of_overlap(where, data, settings.seed, settings.calibration)
        return list(genotypes), [f"{k} {selector}" for k in range(len(genotypes))]
    found = [read_genotype(given) for given in settings.genotype or ("DARTS_V2",)]
    found = found * (settings.learners or 1) if len(found) == 1 else found
    return [genotype for genotype, _ in found], [f"{k} {name}" for k, (_, name) in enumerate(found)]


def _record(learners: Any, data: Any, settings: TrainConfig, run: Path) -> None:
    from quorate.train.again import votes_of_run
    from quorate.train.jobs import with_threads

    with with_threads(settings.threads or 1):
        votes_of_run(run, data=data, own=dict(enumerate(learners)))


def _print_committee(committee: "CommitteeRecord") -> None:
    from quorate.report.tables import macs, percent, print_table

    exits = range(len(committee.macs))
    rows = []
    for k, learner in enumerate(committee.learners):
        right = list(learner.accuracy["test"])
        shown = [""] * (len(exits) - len(right)) + [percent(share) for share in right]
        rows.append([learner.name, *shown, macs(sum(row[k] for row in committee.macs))])
    print_table(["learner", *(f"exit {e}" for e in exits), "MACs"], rows, "test accuracy")
