"""``quorate export``: a run as a bundle that runs without torch, in float32 or int8."""

import json as json_
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from quorate.cli.common import progress_on
from quorate.report.tables import macs, percent, print_table
from quorate.store import read_policy

if TYPE_CHECKING:
    from quorate.engine.committee import Committee
    from quorate.engine.quantising import Sides

__all__ = ["export"]

CALIBRATION = 512  # images that show between which values activations lie


def export(
    run: Path,
    out: Path,
    /,
    *,
    policy: Path | None = None,
    int8: bool = False,
    max_drop: float = 0.5,
    data: str | None = None,
    root: Path | None = None,
    samples: int = 2000,
    threads: int | None = None,
    format: Literal["onnx"] = "onnx",
    json: bool = False,
) -> None:
    """Write a run as a bundle: one graph per branch, proven equal to torch, that needs ONNX Runtime alone.

    ```
    quorate export runs/cifar10 bundle/
    quorate export runs/cifar10 bundle/ --policy policy.json
    quorate export runs/cifar10 bundle8/ --int8 --max-drop 0.5
    ```

    With `--int8` the branches compute in eight bits. Their votes on the calibration split are recorded again and a
    policy is tuned on them, so that what is promised holds for what is shipped; both precisions are then compared on
    test images, and the table recommends int8 or advises against it.

    Args:
        run: the folder of a finished run.
        out: a folder that does not exist, or is empty.
        policy: decide by this file of `quorate tune` instead of the run's own policy; not with `--int8`.
        int8: quantise the branches.
        max_drop: with `--int8`, points of accuracy that policies may lose against the static soft vote.
        data: with `--int8`, where the data set lies now, if not where the run found it.
        root: with `--int8`, where named data sets lie now.
        samples: with `--int8`, how many test images the precisions are compared on.
        threads: with `--int8`, how many each branch may use while it is timed.
        format: of the graphs.
        json: print JSON.
    """
    from quorate.engine.runs import load_run
    from quorate.store.bundle import read_bundle
    from quorate.store.folders import check_new

    check_new(out, "bundle")
    committee = load_run(run)
    if policy is not None:
        if int8:
            raise ValueError("--policy is not for --int8: quantised branches vote otherwise, and are tuned anew")
        committee = committee.with_policy(read_policy(policy)[0])
        committee.policy.start(1, committee.lattice)  # a policy for another committee says so
    if int8:
        sides = _export_int8(committee, run, out, max_drop, data, root, samples, threads)
    else:
        sides = None
        with progress_on() as tick:
            committee.export(out, format=format, progress=tick)
    bundle = read_bundle(out)
    if json:
        compared = None if sides is None else {**sides.as_json(), "advice": sides.advice}
        about = {name: bundle.about[name] for name in ("largest_difference",) if name in bundle.about}
        print(json_.dumps({"bundle": str(out), "policy": str(bundle.policy), **about, "int8": compared}, indent=1))
        return
    if sides is not None:
        say(sides)
    print(f"Written: {out}")
    rows = [["policy", str(bundle.policy)], ["branches", str(int(committee.networks.present.sum()))]]
    if not int8:
        difference = bundle.about["largest_difference"]
        rows.append(["largest difference of a probability from torch's", f"{difference:.1e}"])
    print_table(["", ""], rows)


def _export_int8(
    committee: "Committee", run: Path, out: Path, max_drop: float, data: str | None, root: Path | None, samples: int,
    threads: int | None,
) -> "Sides":  # fmt: skip
    from quorate.data.splits import split
    from quorate.engine.loading import load
    from quorate.engine.quantising import compare_precisions, quantise_bundle, with_policy_in
    from quorate.squad import Wish
    from quorate.train.again import data_of_run, splitting_of_run

    if samples < 1:
        raise ValueError(f"samples must be at least 1, got {samples}")
    wish = Wish(max_drop=max_drop)
    found, how = data_of_run(run, data=data, root=root), splitting_of_run(run)
    rows = split(found.train_labels, how.seed, calibration=how.calibration).calibration
    images, labels = found.train_images[rows], found.train_labels[rows]
    with TemporaryDirectory() as folder, progress_on() as tick:
        committee.export(f"{folder}/float32", progress=tick)
        quantise_bundle(f"{folder}/float32", f"{folder}/int8", images[:CALIBRATION], tick=tick)
        tuned = [
            load(f"{folder}/{side}", threads=threads).tune(images, labels, wish, progress=tick)
            for side in ("float32", "int8")
        ]
        plain, eight = tuned
        sides = compare_precisions(
            plain, eight, found.test_images[:samples], found.test_labels[:samples], tick=tick
        )  # fmt: skip
        promise = eight.tuned
        assert promise is not None
        about: dict[str, Any] = {"tuned": promise.as_json(), "compared": sides.as_json()}
        with_policy_in(f"{folder}/int8", out, eight.policy, about)
    return sides


def say(sides: "Sides") -> None:
    """Both precisions, and what to make of them."""
    batches = list(sides.float32.milliseconds)
    rows = [
        [name, percent(side.accuracy, 1), percent(side.agreement, 1), macs(side.macs, sides.float32.macs),
         *(f"{side.milliseconds[n]:.3f}" for n in batches)]
        for name, side in (("float32", sides.float32), ("int8", sides.int8))
    ]  # fmt: skip
    columns = ["precision", "right", "as float32", "lazy MACs", *(f"ms an image, batch {n}" for n in batches)]
    print_table(columns, rows, f"{sides.samples:,} test images, each side with a policy tuned on its own votes")
    print(sides.advice)
