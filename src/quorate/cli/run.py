"""``quorate run``: from a data set to a committee and its report, phase by phase, taken up at any moment."""

import json as json_
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, ArgumentCollection, Parameter

from quorate.cli.common import progress_on, warning_lines
from quorate.cli.settings import beneath, settings_in
from quorate.recipes.config import RunConfig
from quorate.recipes.runs import RECIPES, bring_your_own

if TYPE_CHECKING:
    from quorate.recipes.phases import Phase, Work

__all__ = ["app"]

PhaseName = Literal["search", "train", "tune", "export", "bench", "evaluate", "report"]


def _recipe_beneath(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """What nobody set by flag comes from the file of --config, and what is not there from the recipe."""
    given = {name: [token.value for token in argument.tokens] for argument in arguments for name in argument.names}
    positional = [token.value for argument in arguments for token in argument.tokens if not token.keyword]
    if files := given.get("--config"):
        beneath(app, commands, arguments, settings_in(Path(files[0])), files[0])
    name = positional[0] if positional else None
    if name is not None and name not in RECIPES:
        raise ValueError(f"the recipe must be one of {', '.join(RECIPES)}, got {name!r}; `quorate recipes` lists them")
    if name is None and not files and not (given.get("--data") or given.get("--model")):
        raise ValueError("name a recipe (`quorate recipes` lists them), or your own images with --data folder:PATH")
    if name is not None or not files:
        config = RECIPES[name].make() if name is not None else bring_your_own(models=bool(given.get("--model")))
        beneath(app, commands, arguments, config.model_dump(mode="json"), name or "bring your own")
    for argument in arguments:
        if "--exits" in argument.names and len(argument.tokens) > 1:  # of a word or numbers the parser takes the first
            numbers = ",".join(token.value for token in argument.tokens)
            argument.tokens[:] = [argument.tokens[0].evolve(value=numbers)]


app = App(name="run", config=_recipe_beneath, help_format="markdown")


@app.default
def run(
    name: str | None = None,
    /,
    *,
    settings: Annotated[RunConfig, Parameter(name="*")] = RunConfig(),  # noqa: B008 - frozen
    run: Path | None = None,
    config: Path | None = None,
    seeds: int = 1,
    begin: Annotated[PhaseName | None, Parameter(name="--from")] = None,
    end: Annotated[PhaseName, Parameter(name="--to")] = "report",
    json: bool = False,
) -> None:
    """Search, train, tune, export, measure, evaluate and report: a whole run, that goes on where it was stopped.

    ```
    quorate run digits
    quorate run cifar10_cpu --root datasets --training.epochs 30
    quorate run cifar10_cpu --selector random --match-macs runs/cifar10_cpu --run runs/control
    quorate run --data folder:photos --learners 5
    quorate run --data folder:photos --model timm:resnet18 --model my_models.py:build --weights a.pth --weights none
    quorate run --config runs/digits/config.json --run runs/again
    quorate run digits --from tune --wish.max-drop 0.2
    ```

    Each phase can be run alone too: `quorate search`, `train`, `tune`, `export`, `bench`, `evaluate`, `report`.

    Args:
        name: of a recipe; see `quorate recipes`. Left out for images of your own.
        settings: of the run; what is not set is the recipe's.
        run: the directory to write to; by default runs/ and the recipe's or the data's name.
        config: a TOML file of settings, or the `config.json` of a run to repeat it; flags win over it.
        seeds: so many runs, of seeds from --seed upward, and one report on all.
        begin: do this phase and all after it again.
        end: stop after this phase.
        json: print the results as JSON at the end; of a run that stops earlier, what is done and in how many seconds.
    """
    # Read once, when torch is loaded: on busy cores threads that wait for each other would else burn most of the time.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, got {seeds}")
    from quorate.recipes.committee import data_of
    from quorate.recipes.phases import run_phases

    place = run or Path("runs") / _called(settings)
    done: dict[Path, dict[str, float]] = {}
    for seed in range(settings.seed, settings.seed + seeds):
        one = RunConfig.model_validate(settings.model_dump() | {"seed": seed})
        folder = place if seeds == 1 else place.with_name(f"{place.name}-seed{seed}")
        try:
            with warning_lines():
                shell, data = _Terminal(folder), partial(data_of, one)
                phases = run_phases(one, folder, _works(one), data, begin=begin, end=end, shell=shell)
        except KeyboardInterrupt:
            print(f"the same command goes on where {folder} was stopped", file=sys.stderr)
            raise
        done[folder] = phases.seconds
    if end == "report":
        _last_lines(list(done), json=json)
    elif json:
        print(json_.dumps([{"run": str(folder), "seconds": seconds} for folder, seconds in done.items()], indent=1))


def _works(config: RunConfig) -> "dict[str, Phase]":
    """What each phase does, evaluating and reporting included."""
    from quorate.cli.evaluate import evaluate_run
    from quorate.cli.report import report_run
    from quorate.engine.runs import load_run
    from quorate.recipes.works import own_learners, works_of

    def evaluate(work: "Work") -> None:
        own = own_learners(work)
        committee = load_run(work.place.path, build=own.__getitem__) if own else None
        with work.shell.steps() as progress:
            evaluate_run(work.place.path, committee=committee, threads=config.threads, progress=progress)

    def report(work: "Work") -> None:
        report_run(work.place.path)

    return {**works_of(config), "evaluate": evaluate, "report": report}


def _called(settings: RunConfig) -> str:
    if settings.recipe != "own":
        return settings.recipe
    kind, _, rest = settings.data.partition(":")
    if not rest:
        return kind
    path = Path(rest).resolve()  # "." and ".." are called something, too
    return (path.name if kind == "folder" else path.stem) or kind


def _last_lines(runs: Sequence[Path], *, json: bool) -> None:
    """Where each report is, and the three numbers that matter; of several runs their tables first."""
    from quorate.cli.report import last_words, report
    from quorate.report.results import read_results
    from quorate.store.run import RunFolder

    if len(runs) > 1:
        report(list(runs), json=json)
    found = {RunFolder(run).report: read_results(RunFolder(run).report / "results.json") for run in runs}
    for folder, results in found.items():
        if not json:
            print(f"report: {folder / 'index.html'} ({last_words(results)})")
        elif len(runs) == 1:
            print(json_.dumps(results, indent=1))


class _Terminal:
    """A person at a terminal watches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def phase(self, name: str, state: str) -> None:
        """A line for each beginning and end."""
        said = {"begun": "...", "skipped": "done before"}.get(state, state)
        print(f"{self.folder}: {name} {said}", file=sys.stderr, flush=True)

    def training(self) -> AbstractContextManager[Callable[[Any], None]]:
        """Bars, or a line for each epoch."""
        from quorate.train.progress import showing

        return showing()

    def steps(self) -> AbstractContextManager[Callable[[str, int, int], None] | None]:
        """A bar, or a line every ten seconds."""
        return progress_on()
