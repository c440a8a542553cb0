"""``quorate search``: committees from images, found by QUEST, stopped and taken up at any moment."""

import json as json_
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from pydantic import Field

from quorate.cli.common import progress_on, warning_lines
from quorate.cli.train import from_file
from quorate.quest.config import SearchConfig, Selector

if TYPE_CHECKING:
    from quorate.quest.search import Found

__all__ = ["Searching", "app"]


class Searching(SearchConfig):
    """A search, and where.

    Attributes:
        data: a data set by name, folder:PATH or arrays:FILE.
        root: where named data sets are kept; by default $QUORATE_DATA, else ~/.cache/quorate.
        learners: of a committee.
        selector: which committees to make of the posterior; may be given several times. The first is the one that
            training takes.
        run: the directory to write to; by default runs/ and the name of the data.
        device: cpu, cuda, cuda:1, or what there is.
        threads: on a CPU; by default one for each core.
    """

    data: str = "digits"
    root: Path | None = None
    learners: Annotated[int, Field(ge=1)] = 3
    selector: tuple[Selector, ...] = ("svgd",)
    run: Path | None = None
    device: str = "auto"
    threads: Annotated[int, Field(ge=1)] | None = None


app = App(name="search", config=from_file, help_format="markdown")


@app.default
def search(
    *,
    settings: Annotated[Searching, Parameter(name="*")] = Searching(),  # noqa: B008 - frozen
    config: Path | None = None,
    recipe: str | None = None,
    json: bool = False,
) -> None:
    """Search for a committee: genotypes whose learners answer well together, and differ at every exit.

    The same command goes on where a search was stopped, whatever stopped it. Another selector on the same run finds
    the supernet trained.

    ```
    quorate search --recipe digits --data digits --learners 3
    quorate search --recipe cifar10_cpu --data cifar10 --root datasets --selector svgd --selector random
    quorate search --data folder:photos --side 32 --channels 8 --cells 5 --epochs 30 --logit-rate 0.02
    ```

    Args:
        settings: of the search.
        config: a TOML file of the same settings (`epochs = 30`); flags win over it.
        recipe: settings to begin with: digits, fashion_cpu, cifar10_cpu, cifar10_gpu, cifar10_nesbs, cifar10_paper;
            flags win over them.
        json: print what was found as JSON.
    """
    # Read once, when torch is loaded: on busy cores threads that wait for each other would else burn most of the time.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    import torch

    from quorate.data import load
    from quorate.quest.search import memory_needed
    from quorate.quest.search import search as find

    chosen = SearchConfig(**{**_recipe(recipe), **_given(settings, recipe)})
    data = load(settings.data, root=settings.root, seed=chosen.seed)
    run = settings.run or Path("runs") / settings.data.partition(":")[0]
    device = settings.device if settings.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    print(
        f"{data.name}: supernet C = {chosen.channels}, L = {chosen.cells}, {chosen.relaxation} relaxation, "
        f"{chosen.epochs} + {chosen.posterior_epochs} epochs; a step needs about "
        f"{memory_needed(data, chosen) / 2**30:.2f} GiB",
        file=sys.stderr,
    )
    try:
        with progress_on() as listen, warning_lines():
            found = find(
                data,
                chosen,
                run,
                learners=settings.learners,
                selectors=settings.selector,
                device=device,
                threads=settings.threads,
                listen=listen or (lambda what, done, total: None),
            )
    except KeyboardInterrupt:
        print(f"the same command goes on from the last checkpoint in {run}", file=sys.stderr)
        raise
    if json:
        genotypes = {name: [json_.loads(one.to_json()) for one in some] for name, some in found.genotypes.items()}
        rows = {name: row._asdict() for name, row in found.rows.items()}
        print(json_.dumps({"run": str(run), "genotypes": genotypes, "rows": rows}, indent=1))
        return
    _print(found, run)
    print(f"run: {run}")


def _recipe(name: str | None) -> dict[str, Any]:
    if name is None:
        return {}
    from quorate.recipes import searches

    if name not in searches.__all__:
        raise ValueError(f"recipe must be one of {', '.join(searches.__all__)}, got {name!r}")
    values: dict[str, Any] = getattr(searches, name)().model_dump()
    return values


def _given(settings: Searching, recipe: str | None) -> dict[str, Any]:
    """What flags and files said; without a recipe everything."""
    fields = set(SearchConfig.model_fields)
    return settings.model_dump(include=fields, exclude_unset=recipe is not None)


def _print(found: "Found", run: Path) -> None:
    """Every committee of the run, those of earlier commands too."""
    from quorate.quest.scoring import Row
    from quorate.report.tables import macs, percent, print_table
    from quorate.store.search import read_search

    written = {name: one.get("row", {}) for name, one in read_search(run)[0].items()}
    before = {name: Row(**row) for name, row in written.items() if set(row) == set(Row._fields)}
    exits = [f"exit {e}" for e in range(len(next(iter(found.rows.values())).ppd))]
    accuracy, apart, members = [], [], []
    for name, row in {**before, **found.rows}.items():
        costs = " ".join(macs(cost) for cost in row.macs)
        accuracy.append([name, costs, *map(percent, row.ensemble), f"{row.loss:.4f}"])
        apart.append([name, *map(percent, row.ppd)])
        for k, one in enumerate(row.accuracy):
            members.append([f"{name} {k}", macs(row.macs[k]), *map(percent, one)])
    title = "ensembles by the supernet's weights, on validation images"
    print_table(["selector", "MACs of members", *exits, "joint loss"], accuracy, title)
    print_table(["selector", *exits], apart, "disagreement (PPD)")
    print_table(["learner", "MACs", *exits], members, "members")
