"""``quorate evaluate``: how good a committee is, by its engine and by replay, which must agree."""

import json as json_
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quorate.cli.common import progress_on, warning_lines
from quorate.cli.run_parts import Progress, dataset_of, images_of, results_for, run_parts, votes_of
from quorate.errors import QuorateError
from quorate.report.deciding import TITLES
from quorate.report.saying import of_agreement, of_classes, points, saved
from quorate.report.summary import decide
from quorate.report.tables import macs, percent, print_table
from quorate.squad import Static
from quorate.store.run import held

if TYPE_CHECKING:
    from quorate.engine.committee import Committee

__all__ = ["evaluate", "evaluate_run"]

Backend = Literal["torch", "onnxruntime"]
BATCHES = (1, 64)
SECONDS = 3.0  # of timing for each batch size


def evaluate(
    run: Path,
    /,
    *,
    split: str = "test",
    backend: Backend = "torch",
    data: str | None = None,
    root: Path | None = None,
    max_drop: float | None = None,
    threads: int | None = None,
    json: bool = False,
) -> None:
    """Evaluate a finished run: accuracy, classes, every cost, calibration, and milliseconds.

    The committee answers every image with its real engine, and its recorded votes are replayed: both must agree. Votes
    are recorded first where the run has none. Everything is written to RUN/report/results.json.

    ```
    quorate evaluate runs/digits
    quorate evaluate runs/cifar10 --backend onnxruntime --threads 1
    quorate evaluate runs/photos --data folder:elsewhere/photos --json
    ```

    Args:
        run: the folder of a finished run.
        split: test or train: the samples that judge.
        backend: that runs the networks.
        data: the data set, where it is not where the run found it.
        root: where named data sets are kept, if not where they were.
        max_drop: points that policies may lose where their thresholds are chosen; by default those that the run was
            tuned for, else 0.5.
        threads: of the networks; by default one for each core.
        json: print JSON instead of tables.
    """
    run_parts(run)  # whatever is wrong with it is said before its folder is held
    with held(run), warning_lines(), progress_on() as progress:
        results = evaluate_run(
            run, split=split, backend=backend, data=data, root=root, max_drop=max_drop, threads=threads,
            progress=progress,
        )  # fmt: skip
    if json:
        print(json_.dumps(results, indent=1))
        return
    say(results)
    print(f"Written: {run / 'report' / 'results.json'}")


def evaluate_run(
    run: Path,
    *,
    split: str = "test",
    backend: Backend = "torch",
    data: str | None = None,
    root: Path | None = None,
    max_drop: float | None = None,
    threads: int | None = None,
    committee: "Committee | None" = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Evaluate a run and write its results.

    Args:
        run: its folder.
        split: ``"test"`` or another split of its votes.
        backend: that runs the networks.
        data: the data set, where it is not where the run found it.
        root: where named data sets are kept now.
        max_drop: points that policies may lose where their thresholds are chosen; by default those that the run was
            tuned for, else 0.5.
        threads: of the networks.
        committee: of the run, where it is loaded already, or of networks that no file can build.
        progress: called with what is being done, the steps done, and of how many.

    Returns:
        The document of results.
    """
    if split == "calibration":
        raise ValueError("split must not be calibration: thresholds are chosen there; judge on test or train")
    from quorate.engine.runs import load_run
    from quorate.train.jobs import with_threads

    parts = run_parts(run)
    if committee is None and any(one.network.get("kind") == "own" for one in parts.record.learners):
        raise QuorateError(
            f"{run}: its networks are from a file of yours, and only what you name is executed: `quorate run --config "
            f"{run}/config.json --run {run} --from evaluate` makes them again"
        )
    dataset = dataset_of(parts, data, root)
    threads = threads or os.cpu_count() or 1
    with with_threads(threads):
        committee = committee or load_run(run)
        own = dict(enumerate(committee.learners)) if committee.learners is not None else None
        votes = votes_of(parts, lambda: dataset, split, own)
        part = votes.of(split)
        images, labels = images_of(parts, dataset, split)
        if len(labels) != len(part.labels) or (labels != part.labels).any():
            raise QuorateError(
                f"{parts.place.votes}: holds votes on other images: remove the file, and they are recorded again"
            )
        outcome = decide(part, committee.policy)
        with tempfile.TemporaryDirectory() as folder:
            runs = _on(committee, backend, Path(folder) / "bundle", threads)
            engine = _engine(runs, images, part, outcome, progress)
    engine |= {"backend": backend, "threads": threads}
    return results_for(parts, votes, split=split, max_drop=max_drop, engine=engine, progress=progress)


def _on(committee: "Committee", backend: Backend, folder: Path, threads: int) -> "Committee":
    if backend == "torch":
        return committee
    from quorate.engine.loading import load

    committee.export(folder)
    return load(folder, backend="onnxruntime", threads=threads)


def _engine(committee: "Committee", images: Any, votes: Any, outcome: Any, progress: Progress | None) -> dict[str, Any]:
    """Agreement and milliseconds."""
    from quorate.engine.agreement import agreement

    def tell(done: int, total: int) -> None:
        if progress is not None:
            progress("answering images", done, total)

    found = agreement(committee, images, votes, outcome, tell=tell)
    static = committee.with_policy(Static())
    timed = {}
    for batch in BATCHES:
        if len(images) >= batch:
            timed[str(batch)] = _milliseconds({"policy": committee, "static": static}, images, batch)
    return {**found._asdict(), "milliseconds": timed}


def _milliseconds(committees: "dict[str, Committee]", images: Any, batch: int) -> dict[str, Any]:
    """Median milliseconds per image of each, in turns on the same batches, for some seconds."""
    taken: dict[str, list[float]] = {name: [] for name in committees}
    for committee in committees.values():
        committee(images[:batch])  # the first call of a shape is slower
    end, start, last = time.perf_counter() + SECONDS, 0, len(images) - batch
    while time.perf_counter() < end or len(taken["policy"]) < 3:
        for name, committee in committees.items():
            begun = time.perf_counter()
            committee(images[start : start + batch])
            taken[name].append(1000 * (time.perf_counter() - begun) / batch)
        start = start + batch if start + batch <= last else 0
        if len(taken["policy"]) * batch >= len(images):
            break
    # a mean: what samples cost differs, and the dear ones count
    means = {name: statistics.fmean(times) for name, times in taken.items()}
    return {**means, "images": len(taken["policy"]) * batch}


def say(results: dict[str, Any]) -> None:
    """The tables."""
    own, static, engine = results["own"], results["static"], results["engine"]
    print(
        f"{results['run']}: {results['samples']:,} samples of {results['split']}, {len(results['learners'])} learners, "
        f"{results['exits']} exits; thresholds chosen on {results['calibration_samples']:,} of "
        f"{results['calibration']}\npolicy: {own['policy']}\n"
    )
    shown = [c for c in TITLES if static["costs"].get(c) is not None]
    rows = [_line("static soft vote", static, static, shown), _line("the committee's own", own, static, shown)]
    rows += [
        _line(f"{results['learners'][one['learner']]['name']}, whole", one["static"], static, shown)
        for one in results["alone"]
    ]
    rows += [
        _line(row["group"] + ("" if row["kept"] else " (!)"), row, static, shown)
        for row in results["policies"]
        if row["device"] == "lazy"
    ]
    columns = ["policy", "accuracy", "+-", "points", *(TITLES[c] for c in shown), "ECE", "AURC"]
    print_table(columns, rows, title=f"Each within {results['wish']['max_drop']:g} points on the calibration samples "
                "at the least lazy cost; (!) comes as close as it can")  # fmt: skip
    exits = [[str(e), percent(own["left"][e], 1), percent(own["forced"][e], 1), percent(own["exit_ece"][e]),
              percent(own["ppd"][e]), *(percent(one["accuracy"][e]) for one in results["learners"])]
             for e in range(results["exits"])]  # fmt: skip
    names = [one["name"] for one in results["learners"]]
    print_table(["exit", "left", "forced", "ECE of those", "PPD", *names], exits)
    print(of_classes(results["answers"]["own"], results["classes"]))
    if len(results["classes"]) <= 12:
        table = results["answers"]["own"]["confusion"]
        rows = [[name, *map(str, row[:-1]), percent(one["accuracy"], 1)] for name, row, one in
                zip(results["classes"], table, results["answers"]["own"]["per_class"], strict=True)]  # fmt: skip
        print_table(["truth \\ answer", *results["classes"], "right"], rows)
    print(
        f"Engine ({engine['backend']}, threads: {engine['threads']}) and replay: "
        f"{of_agreement(engine)}; recorded votes lie within {engine['largest']:.1g} of those run again."
    )
    for batch, times in engine["milliseconds"].items():
        print(f"{times['policy']:.3g} ms an image in batches of {batch}, static {times['static']:.3g} ms "
              f"({saved(times['policy'], times['static'])}, {times['images']:,} images each)")  # fmt: skip


def _line(name: str, row: dict[str, Any], static: dict[str, Any], shown: list[str]) -> list[str]:
    costs = [macs(row["costs"].get(c), static["costs"][c]) for c in shown]
    gap = "" if row is static else points(row["accuracy"] - static["accuracy"])
    return [name, percent(row["accuracy"]), f"{100 * row['accuracy_error']:.2f}", gap, *costs, percent(row["ece"]),
            percent(row["aurc"], 3)]  # fmt: skip
