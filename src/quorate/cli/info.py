"""``quorate info``: what a run, a bundle, a policy or a file of votes holds. Nothing in it is run."""

import json as json_
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from quorate.errors import QuorateError
from quorate.report.tables import macs, percent, print_table
from quorate.squad import Votes
from quorate.store import read_policy, read_votes
from quorate.store.bundle import Bundle, is_bundle, read_bundle
from quorate.store.run import CommitteeRecord, InputSpec, RunFolder, read_committee
from quorate.store.timings import read_timings

__all__ = ["info"]


def info(path: Path, /, *, json: bool = False) -> None:
    """Say what a run, a bundle, a policy or a file of votes holds, and check that it is whole. Nothing in it is run.

    ```
    quorate info runs/cifar10
    quorate info bundle/
    quorate info policy.json
    quorate info votes.safetensors --json
    ```

    Args:
        path: the folder of a run or a bundle, a policy or a votes file.
        json: print JSON instead of tables.
    """
    table: Any = None
    if is_bundle(path):
        bundle = read_bundle(path)
        document, table = {**about_bundle(bundle), **about_timings(path, bundle.macs)}, bundle.macs
    elif path.is_dir():
        record = read_committee(_committee_of(path))
        document, table = {**about_run(record), **about_timings(path, record.macs)}, record.macs
    elif _starts_as_json(path):
        policy, about = read_policy(path)
        document = {"kind": "policy", "policy": str(policy), "about": about}
    else:
        votes = read_votes(path)
        document, table = about_votes(votes), votes.macs
    if json:
        print(json_.dumps({"path": path.name, **document}, indent=1, allow_nan=False))
        return
    print(f"{path.name}: {document['kind']}")
    facts = {**document, **document.get("about", {})}
    shown = [name for name in facts if name not in ("kind", "macs", "about", "best", "frontier")]
    for name in shown:  # one line each: values are too different in length for a table
        print(f"  {name:{max(map(len, shown))}}  {_plain(facts[name])}")
    if table is not None:
        print_costs(np.asarray(table))


def about_bundle(bundle: Bundle) -> dict[str, Any]:
    """What a bundle says of itself."""
    num_exits, num_learners = bundle.macs.shape
    sizes = [(bundle.path / name).stat().st_size for name in bundle.sha256]
    own = {
        "kind": "bundle",
        "policy": str(bundle.policy),
        "learners": num_learners,
        "exits": num_exits,
        "classes": list(bundle.classes),
        "inputs": _sides(bundle.inputs),
        "branches": sum(name is not None for row in bundle.branches for name in row),
        "chained": bundle.chained,
        "bytes": sum(sizes),
        "macs": bundle.macs.tolist(),
    }
    return own | {name: value for name, value in bundle.about.items() if name not in own and name != "about"}


def about_run(record: CommitteeRecord) -> dict[str, Any]:
    """What a finished run says of its committee."""
    inputs = _sides(one.input for one in record.learners)
    return {
        "kind": "run",
        "policy": str(record.policy),
        "learners": [f"{one.name} ({one.network.get('kind', 'unknown')})" for one in record.learners],
        "exits": len(record.macs),
        "classes": list(record.classes),
        "inputs": inputs,
        "accuracy per exit": {one.name: {s: list(a) for s, a in one.accuracy.items()} for one in record.learners},
        "chained": record.chained,
        "macs": [list(row) for row in record.macs],
    }


def about_timings(path: Path, table: Any) -> dict[str, Any]:
    """What was measured of a run or a bundle."""
    return {
        "milliseconds measured": [
            f"{one.backend} on {one.device}, {one.threads} threads, batches of {'/'.join(map(str, one.milliseconds))}"
            for one in read_timings(path, np.asarray(table).shape)
        ]
    }


def about_votes(votes: Votes) -> dict[str, Any]:
    """What a file of votes holds."""
    num_exits, num_learners, n, classes = votes.probs.shape
    splits: dict[str, int] = {}
    if votes.split is not None:
        names, counts = np.unique(votes.split, return_counts=True)
        splits = {str(name): int(count) for name, count in zip(names, counts, strict=True)}
    right = votes.probs[-1].argmax(-1) == votes.labels
    return {
        "kind": "votes",
        "samples": n,
        "splits": splits or "none named",
        "learners": num_learners,
        "exits": num_exits,
        "classes": votes.metadata.get("classes", classes),
        "accuracy of the last exits": [percent(float(one.mean())) for one in right],
        "absent votes": 0 if votes.present is None else int((~np.asarray(votes.present)).sum()),
        "arrival recorded": votes.arrival is not None,
        "milliseconds at batch sizes": sorted(votes.milliseconds or {}),
        "chained": votes.chained,
        "macs": np.asarray(votes.macs).tolist(),
    }


def print_costs(table: Any) -> None:
    """The cost of every branch, and of every whole learner."""
    num_exits, num_learners = table.shape
    most = float(table.max())
    rows = [[f"exit {e}", *(macs(float(cost), most) for cost in table[e])] for e in range(num_exits)]
    rows.append(["whole", *(macs(float(cost), most) for cost in table.sum(0))])
    print_table(["MACs", *(f"learner {k}" for k in range(num_learners))], rows)


def _sides(inputs: Iterable[InputSpec | None]) -> list[str] | str:
    """Of the images that learners read."""
    return sorted({f"{s.channels} x {s.height} x {s.width}" for s in inputs if s is not None}) or "tensors"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        shown = ", ".join(map(_plain, value[:10]))
        return (f"{shown}, ... ({len(value)})" if len(value) > 10 else shown) or "none"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _committee_of(path: Path) -> Path:
    committee = RunFolder(path).committee
    if not committee.is_file():
        raise QuorateError(
            f"{path}: is neither a bundle (manifest.json) nor a finished run (committee.json): give one, or a file"
        )
    return committee


def _starts_as_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False
