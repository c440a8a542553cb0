"""Milliseconds of a run: its bundle against the static ensemble, in turn, on this machine.

What is measured of the branches stands in ``costs.json`` of the run and of its bundle, so that both know their
milliseconds; what was saved stands in ``report/bench.json``.

This file does not know how anything is timed.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from quorate.data.dataset import Dataset
from quorate.engine.bench import OWN, Bench, bench
from quorate.engine.contenders import open_contender
from quorate.engine.placement import usable_cores
from quorate.engine.timing import Tick
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder
from quorate.store.schema import read_document, write_document
from quorate.store.timings import update_timings

__all__ = ["BACKEND", "measure_run", "read_bench"]

BACKEND = "onnxruntime"
SCHEMA, VERSION = "quorate.bench", 1


def measure_run(
    place: RunFolder,
    data: Dataset,
    *,
    batches: Sequence[int] = (1, 32, 256),
    rounds: int = 3,
    images: int = 64,
    threads: int | None = None,
    tick: Tick | None = None,
) -> Bench:
    """Measure the bundle of a run on test images: its own policy, the static ensemble, each learner alone.

    Args:
        place: of the run, exported.
        data: what it was trained on.
        batches: sizes; those larger than the test part are left out, the whole part is measured if all are.
        rounds: how often everybody has a turn.
        images: in a round at least.
        threads: of each network; None: as many as this process may use.
        tick: told about the progress.

    Example:
        >>> from quorate.data import load
        >>> measure_run(RunFolder("/nowhere"), load("digits"))
        Traceback (most recent call last):
        ValueError: backend must be one that can run /nowhere/bundle here, none: got onnxruntime
    """
    count = threads or usable_cores()
    most = len(data.test_labels)
    sizes = [size for size in batches if size <= most] or [most]
    with tempfile.TemporaryDirectory(prefix="quorate-") as cache:
        one = open_contender(place.bundle, BACKEND, threads=count, cache=Path(cache))
        found = bench(
            [one],
            data.test_images[: max(images, *sizes)],
            data.test_labels[: max(images, *sizes)],
            policies={OWN: one.branches.policy},
            batches=sizes,
            rounds=rounds,
            calls=images,
            tick=tick,
        )
        shape = one.branches.macs.shape
    timing = found.timing(BACKEND, "cpu", count)
    for folder in (place.path, place.bundle):
        update_timings(folder, [timing], (shape[0], shape[1]))
    with on_disk(place.report, "written"):
        place.report.mkdir(exist_ok=True)
    about = {"threads": count, "hardware": dict(timing.hardware), "versions": dict(timing.versions)}
    write_document(place.report / "bench.json", SCHEMA, VERSION, {**about, **found.as_json()})
    return found


def read_bench(place: RunFolder) -> dict[str, Any] | None:
    """What was measured of a run; None where nothing was.

    Example:
        >>> read_bench(RunFolder("/nowhere")) is None
        True
    """
    path = place.report / "bench.json"
    return read_document(path, SCHEMA, VERSION) if path.exists() else None
