"""``quorate bench``: what a committee saves in time, and what every branch costs in milliseconds."""

import json as json_
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quorate.cli.common import progress_on
from quorate.report.tables import check_output, macs, percent, print_table, write_rows

if TYPE_CHECKING:
    from quorate.engine.bench import Bench

__all__ = ["bench"]


def bench(
    path: Path,
    /,
    *,
    data: str | None = None,
    root: Path | None = None,
    images: Path | None = None,
    noise: bool = False,
    votes: Path | None = None,
    max_drop: float = 0.5,
    policies: tuple[str, ...] = (),
    sources: tuple[Literal["lazy", "eager", "parallel"], ...] = ("lazy", "eager", "parallel"),
    backends: tuple[str, ...] = (),
    batches: tuple[int, ...] = (1, 32, 256),
    rounds: int = 5,
    calls: int = 64,
    threads: int | None = None,
    device: str = "cpu",
    cache: Path | None = None,
    out: Path | None = None,
    dry: bool = False,
    json: bool = False,
) -> None:
    """Measure a run or a bundle against the static ensemble, a cascade of whole learners, and each learner alone.

    ```
    quorate bench runs/cifar10
    quorate bench runs/cifar10 --batches 1 --batches 64 --backends onnxruntime --threads 1
    quorate bench bundle/ --data cifar10 --root datasets --votes votes.safetensors --policies policy.json
    ```

    All take turns in one run. The rivals run as whole networks without early heads. Milliseconds of every branch are
    written to `costs.json` in the run or bundle: a committee loaded from there knows them, and `quorate tune RUN --cost
    milliseconds` saves them. On real images the fastest source at each batch size stands there too, for
    `source="auto"`.

    Args:
        path: the folder of a run or a bundle.
        data: the data set whose test images are run on; by default the one that the run was trained on.
        root: where data sets lie.
        images: a folder of pictures, or a .npy of images, instead.
        noise: run on noise. Branches take the same time, but exits and savings mean nothing.
        votes: recorded votes to fit policies on; by default those of the run.
        max_drop: points that SQUAD, pool and cascade may lose against the static soft vote on those votes.
        policies: more policies: names, or files of `quorate tune`.
        sources: how votes are fetched.
        backends: by default all that can run it here.
        batches: batch sizes.
        rounds: how often everybody has a turn.
        calls: how many images a round has at least, as far as there are.
        threads: of every backend; by default all that this process may use.
        device: where torch runs.
        cache: where whole networks and exported branches are kept; by default ~/.cache/quorate/bench.
        out: write all rows to this .csv, or everything to this .json.
        dry: do not write costs.json.
        json: print JSON instead of tables.
    """
    check_output(out)
    if rounds < 1 or calls < 1 or not batches or (threads is not None and threads < 1):
        raise ValueError("rounds, calls, batches and threads must be at least 1")
    # Read once, when torch is loaded: threads that spin between its jobs would else take the cores of the next one.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    from quorate.cli.bench_inputs import images_for, policies_for
    from quorate.engine.bench import bench as measure
    from quorate.engine.contenders import available_backends, open_contender
    from quorate.engine.placement import usable_cores
    from quorate.errors import QuorateError
    from quorate.store import read_votes
    from quorate.store.run import RunFolder
    from quorate.store.timings import update_timings

    count, wanted = threads or usable_cores(), backends or tuple(available_backends(path))
    if not wanted:
        raise QuorateError(f"{path}: is neither a run nor a bundle that a backend installed here could run")
    if "torch" in wanted:
        import torch

        torch.set_num_threads(count)
    batches = tuple(sorted(set(batches)))
    spec = _first_input(path)
    shown = images_for(
        path, data=data, root=root, images=images, noise=noise, least=max(batches), most=calls, spec=spec
    )
    sample = None if spec is not None else shown.images[:2]
    contenders = [
        open_contender(path, name, threads=count, device=device, cache=cache, sample=sample) for name in wanted
    ]
    recorded = votes or (RunFolder(path).votes if RunFolder(path).votes.is_file() else None)
    committee = contenders[0].branches
    chosen = policies_for(committee, None if recorded is None else read_votes(recorded), policies, max_drop)
    with progress_on() as progress:
        found = measure(
            contenders, shown.images, shown.labels, policies=chosen.policies, cascade=chosen.cascade, sources=sources,
            batches=batches, rounds=rounds, calls=calls, tick=progress,
        )  # fmt: skip
    timings = [found.timing(one.backend, device, count, shown.real) for one in contenders]
    notes = [*chosen.notes, *(f"{one.backend}: rivals run early heads too, for lack of the package onnx"
                              for one in contenders if not one.joined)]  # fmt: skip
    about = {
        "measured": path.name, "run_on": shown.what, "threads": count, "hardware": dict(timings[0].hardware),
        "versions": dict(timings[0].versions), "notes": notes,
    }  # fmt: skip
    written = None if dry else update_timings(path, timings, committee.macs.shape)
    if out is not None:
        write_rows(out, [row._asdict() for row in found.rows], {**about, **found.as_json()})
    if json:
        print(json_.dumps({**about, **found.as_json()}, indent=1, allow_nan=False))
        return
    say(found, about, shown.real)
    if written is not None:
        print(f"Milliseconds of every branch: {written}")


def say(found: "Bench", about: dict[str, Any], real: bool = True) -> None:
    """A table for each batch size and backend, what was run where, and on real images which source was the fastest."""
    from quorate.engine.bench import OWN

    hardware = about["hardware"]
    print(
        f"{about['measured']} on {about['run_on']}; {found.rounds} rounds in turn, {about['threads']} threads; "
        f"{hardware['processor']}, {hardware['cores']} cores;\n"
        f"{', '.join(f'{name} {number}' for name, number in about['versions'].items())}"
    )
    for note in about["notes"]:
        print(f"  {note}")
    print()
    whole = max((row.macs for row in found.rows), default=None)
    for batch in found.images:
        for backend in found.branches:
            rows = [
                [row.name, row.source, f"{row.median:.3f}", f"{row.p95:.3f}", f"{row.milliseconds:.3f}",
                 _number(row.predicted, "{:.3f}"), macs(row.macs, whole), percent(row.saved_time, 1),
                 percent(row.saved_macs, 1), _number(row.time_per_macs), _number(row.realised),
                 percent(row.accuracy, 1)]
                for row in found.rows if (row.batch, row.backend) == (batch, backend)
            ]  # fmt: skip
            columns = ["milliseconds an image", "source", "median", "p95", "mean", "predicted", "MACs", "time saved",
                       "MACs saved", "time / MACs", "realised", "right"]  # fmt: skip
            print_table(columns, rows, f"{backend}, batches of {batch}, {found.images[batch]} images a round")
            print()
    for backend in found.branches if real else ():
        for batch, row in found.fastest(backend, OWN).items():
            print(f"Fastest at batches of {batch} on {backend}: {row.source}, {row.milliseconds:.3f} ms an image.")


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "-" if value is None else form.format(value)


def _first_input(path: Path) -> Any:
    """How the first learner sees images; None where it reads other tensors."""
    from quorate.store.bundle import is_bundle, read_bundle
    from quorate.store.run import RunFolder, read_committee

    if is_bundle(path):
        return read_bundle(path).inputs[0]
    return read_committee(RunFolder(path).committee).learners[0].input
