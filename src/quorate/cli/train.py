"""``quorate train``: learners from images, stopped and taken up at any moment."""

import os
import sys
import tomllib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, ArgumentCollection, Parameter
from cyclopts.config import Dict

from quorate.store.run import RunFolder
from quorate.train.config import TrainConfig

if TYPE_CHECKING:
    from quorate.store.run import CommitteeRecord

__all__ = ["app", "from_file", "warning_lines"]


def from_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Settings of the file that ``--config`` names, beneath the flags."""
    for argument in arguments:
        if "--config" in argument.names and argument.tokens:
            path = Path(argument.tokens[0].value)
            if not path.is_file():
                raise ValueError(f"{path}: no such file; --config names a TOML file of settings, such as `epochs = 30`")
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8"))
            except ValueError as error:
                raise ValueError(f"{path}: is not TOML ({error}); write `epochs = 30`, one setting a line") from None
            # Under the command's own name: a key that is also a command, such as `data`, would be dropped otherwise.
            Dict({commands[-1]: table}, source=str(path))(app, commands[-1:], arguments)


app = App(name="train", config=from_file, help_format="markdown")


@app.default
def train(
    *,
    settings: Annotated[TrainConfig, Parameter(name="*")] = TrainConfig(),  # noqa: B008 - frozen
    config: Path | None = None,
    votes: bool = False,
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
    """
    # Read once, when torch is loaded: on busy cores threads that wait for each other would else burn most of the time.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import torch

    from quorate.data import load
    from quorate.train.committee import build_learners, train_committee
    from quorate.train.config import Training
    from quorate.train.progress import showing

    data = load(settings.data, root=settings.root, side=settings.side, seed=settings.seed)
    genotypes, names = _genotypes(settings)
    learners = build_learners(
        genotypes,
        channels=settings.channels,
        cells=settings.cells,
        classes=len(data.classes),
        image_channels=data.shape[2],
        seed=settings.seed,
    )
    run = settings.run or Path("runs") / settings.data.partition(":")[0]
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
    _print_committee(committee)
    if votes:
        _record(learners, data, settings, run)
    print(f"run: {run}")


@contextmanager
def warning_lines() -> Iterator[None]:
    """What is warned of as a line for a person, without the place in the code."""

    def say(message: Warning | str, *where: object, **more: object) -> None:
        print(f"quorate: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield


def _genotypes(settings: TrainConfig) -> tuple[list[Any], list[str]]:
    from quorate.nets import read_genotype

    found = [read_genotype(given) for given in settings.genotype]
    found = found * (settings.learners or 1) if len(found) == 1 else found
    return [genotype for genotype, _ in found], [f"{k} {name}" for k, (_, name) in enumerate(found)]


def _record(learners: Any, data: Any, settings: TrainConfig, run: Path) -> None:
    from quorate.train.again import votes_of_run
    from quorate.train.jobs import with_threads

    with with_threads(settings.threads or 1):
        votes_of_run(run, data=data, own=dict(enumerate(learners)))
    print(f"votes: {RunFolder(run).votes}")


def _print_committee(committee: "CommitteeRecord") -> None:
    from quorate.report.tables import macs, percent, print_table

    exits = range(len(committee.macs))
    rows = []
    for k, learner in enumerate(committee.learners):
        right = list(learner.accuracy["test"])
        shown = [""] * (len(exits) - len(right)) + [percent(share) for share in right]
        rows.append([learner.name, *shown, macs(sum(row[k] for row in committee.macs))])
    print_table(["learner", *(f"exit {e}" for e in exits), "MACs"], rows, "test accuracy")
