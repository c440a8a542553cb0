"""``quorate report``: the page of a run, or the tables of several."""

import json as json_
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quorate import __version__
from quorate.cli.common import progress_on, warning_lines
from quorate.cli.run_parts import (
    DROP,
    Progress,
    RunParts,
    dataset_of,
    images_of,
    results_for,
    run_parts,
    votes_of,
)
from quorate.errors import QuorateError
from quorate.report.gallery import samples_of
from quorate.report.looking import Extras, Sample
from quorate.report.merging import MEASURES, as_page, as_rows, as_table, merged
from quorate.report.page import page_of
from quorate.report.results import parts_of, results_of, write_results
from quorate.report.saying import points, saved
from quorate.report.summary import decide
from quorate.report.tables import check_place, percent, print_table, write_rows
from quorate.store import read_votes, write_atomic
from quorate.store.history import read_history
from quorate.store.run import RunFolder, held

if TYPE_CHECKING:
    from quorate.data.dataset import Dataset

__all__ = ["report", "report_run", "report_votes"]


def report(
    runs: list[Path],
    /,
    *,
    out: Path | None = None,
    data: str | None = None,
    root: Path | None = None,
    max_drop: float | None = None,
    json: bool = False,
) -> None:
    """Write the report of a run as a page, or merge several runs into tables.

    ```
    quorate report runs/digits
    quorate report votes.safetensors --out report/
    quorate report runs/a runs/b runs/c --out table.csv
    ```

    The page is one file that needs no network: every policy at every cost, calibration, classes, samples by exit,
    learners, training. Several runs: data sets as columns, a row per recipe, selector and policy, mean and deviation
    over seeds.

    Args:
        runs: folders of finished runs, or one votes file.
        out: the page's folder (by default RUN/report); of several runs a .json, .csv or .html.
        data: the data set, where it is not where the run found it.
        root: where named data sets are kept, if not where they were.
        max_drop: points that policies may lose where their thresholds are chosen; by default those that the run was
            tuned for, else 0.5.
        json: print the results as JSON.
    """
    if len(runs) == 1 and out is not None and (out.suffix or out.is_file()):
        raise ValueError(f"out must be a folder for the page, got {out}")
    if len(runs) > 1:
        merge(runs, out, root, max_drop, json)
        return
    with warning_lines(), progress_on() as progress:
        if runs[0].is_file():
            drop = DROP if max_drop is None else max_drop
            page, results = report_votes(runs[0], out=out, max_drop=drop, progress=progress)
        else:
            run_parts(runs[0])  # whatever is wrong with it is said before its folder is held
            with held(runs[0]):
                page, results = report_run(runs[0], out=out, data=data, root=root, max_drop=max_drop, progress=progress)
    if json:
        print(json_.dumps(results, indent=1))
        return
    print(f"report: {page} ({last_words(results)})")


def last_words(results: Mapping[str, Any]) -> str:
    """The three numbers that matter: accuracy against the static ensemble, cost saved, time saved.

    Example:
        >>> row = {"accuracy": 0.9, "costs": {"lazy": 1.0, "free-running": 2.0}}
        >>> static = {"accuracy": 0.91, "costs": {"lazy": 4.0, "free-running": 4.0}}
        >>> last_words({"own": row, "static": static})
        '90.00 %, -1.00 points against the static ensemble; MACs: 75 % saved; latency on K devices: 50 % saved'
    """
    from quorate.report.deciding import hero, times

    own, static = hero(results), results["static"]
    said = (
        f"{percent(own['accuracy'])}, {points(own['accuracy'] - static['accuracy'])} points against the static ensemble"
    )
    said += f"; MACs: {saved(own['costs']['lazy'], static['costs']['lazy'])}"
    timed = times(results)
    if not timed:
        return said + f"; latency on K devices: {saved(own['costs']['free-running'], static['costs']['free-running'])}"
    return said + f"; time: {saved(timed[0].policy, timed[0].static)}"


def report_run(
    run: Path,
    *,
    out: Path | None = None,
    data: str | None = None,
    root: Path | None = None,
    max_drop: float | None = None,
    progress: Progress | None = None,
) -> tuple[Path, dict[str, Any]]:
    """Write the page of a run.

    Args:
        run: its folder.
        out: the folder of the page; by default RUN/report.
        data: the data set, where it is not where the run found it.
        root: where named data sets are kept now.
        max_drop: points that policies may lose where their thresholds are chosen; by default those that the run was
            tuned for, else 0.5.
        progress: called with what is being done, the steps done, and of how many.

    Returns:
        The page, and the document of results.
    """
    parts = run_parts(run)
    votes = votes_of(parts, partial(dataset_of, parts, data, root))
    results = results_for(parts, votes, max_drop=max_drop, progress=progress)
    histories = {one["name"]: read_history(RunFolder(run).history(k)) for k, one in enumerate(results["learners"])}
    extras = Extras(
        samples=_samples(parts, votes, data, root),
        drawings=_drawings(parts),
        histories={name: rows for name, rows in histories.items() if rows},
        search=read_history(run / "search" / "history.jsonl"),
    )
    return _write(out or run / "report", results, extras), results


def report_votes(
    path: Path, *, out: Path | None = None, max_drop: float = DROP, progress: Progress | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write the page of recorded votes, without a run.

    Args:
        path: a votes file, or an .npz.
        out: the folder of the page; by default the file's name and "-report", beside it.
        max_drop: points that policies may lose where their thresholds are chosen.
        progress: called with what is being done, the steps done, and of how many.
    """
    judging, choosing, where = parts_of(read_votes(path))
    about = {
        "quorate": __version__,
        "run": path.stem,
        "data": {"name": None, "source": judging.metadata.get("source")},
        **where,
    }
    results = results_of(judging, choosing, max_drop=max_drop, about=about, progress=progress)
    folder = out or path.with_name(f"{path.stem}-report")
    write_results(folder / "results.json", results)
    return _write(folder, results, Extras()), results


def _write(folder: Path, results: Mapping[str, Any], extras: Extras) -> Path:
    write_results(folder / "results.json", {k: v for k, v in results.items() if k not in ("schema", "version")})
    page = folder / "index.html"
    write_atomic(page, page_of(results, extras).encode())
    return page


def _samples(run: RunParts, votes: Any, data: str | None, root: Path | None) -> list[Sample]:
    """The gallery, or a word on why there is none."""
    try:
        dataset: Dataset = dataset_of(run, data, root)
    except (QuorateError, ModuleNotFoundError) as error:
        print(f"quorate: no samples in the report: {error}", file=sys.stderr)
        return []
    judging, _, where = parts_of(votes)
    if where["split"] not in ("test", "train"):
        return []
    images, labels = images_of(run, dataset, where["split"])
    if len(labels) != len(judging.labels) or (labels != judging.labels).any():
        print("quorate: no samples in the report: the votes are of other images", file=sys.stderr)
        return []
    return samples_of(decide(judging, run.record.policy), images, labels, run.record.classes)


def _drawings(run: RunParts) -> dict[str, bytes]:
    """Each genotype once, by the names of the learners that have it."""
    named: dict[str, list[str]] = {}
    for one in run.record.learners:
        if "genotype" in one.network:
            named.setdefault(json_.dumps(one.network["genotype"], sort_keys=True), []).append(one.name)
    if not named:
        return {}
    try:
        from quorate.nets import Genotype, draw_genotype
    except ModuleNotFoundError as error:
        print(f"quorate: no drawings in the report: {error}", file=sys.stderr)
        return {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for text, names in named.items():
            path = draw_genotype(Genotype(**json_.loads(text)), Path(folder) / "cells.svg")
            found[", ".join(names)] = path.read_bytes()
    return found


def merge(runs: list[Path], out: Path | None, root: Path | None, max_drop: float | None, json: bool) -> None:
    """Print, and write where asked, the tables of several runs."""
    if out is not None and out.suffix not in (".json", ".csv", ".html"):
        raise ValueError(f"of several runs the output must end in .json, .csv or .html, got {out.name!r}")
    check_place(out)
    places = [run.resolve() for run in runs]
    if twice := [str(run) for run, place in zip(runs, places, strict=True) if places.count(place) > 1]:
        raise ValueError(f"each run counts once, got {' and '.join(twice)}, which are one folder: name it once")
    found = []
    with warning_lines(), progress_on() as progress:
        for run in runs:
            parts = run_parts(run)
            with held(run):
                votes = votes_of(parts, partial(dataset_of, parts, None, root))
                found.append(results_for(parts, votes, max_drop=max_drop, progress=progress))
    merges = merged(found)
    rows = as_rows(merges)
    if out is not None and out.suffix == ".html":
        write_atomic(out, as_page(merges).encode())
    elif out is not None:
        write_rows(out, rows, {"runs": [one["run"] for one in found], "rows": rows})
    if json:
        print(json_.dumps({"runs": [one["run"] for one in found], "rows": rows}, indent=1))
        return
    for measure in MEASURES:
        columns, lines = as_table(merges, measure)
        if lines:
            print_table(columns, lines, title=measure)
    if out is not None:
        print(f"Written: {out}")
