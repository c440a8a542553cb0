"""``quorate info``: what a bundle, a policy or a file of votes holds. Nothing in it is run."""

import json as json_
from pathlib import Path
from typing import Any

import numpy as np

from quorate.errors import QuorateError
from quorate.report.tables import macs, percent, print_table
from quorate.squad import Votes
from quorate.store import read_policy, read_votes
from quorate.store.bundle import Bundle, is_bundle, read_bundle

__all__ = ["info"]


def info(path: Path, /, *, json: bool = False) -> None:
    """Say what a bundle, a policy or a file of votes holds, and check that it is whole. Nothing in it is run.

    ```
    quorate info bundle/
    quorate info policy.json
    quorate info votes.safetensors --json
    ```

    Args:
        path: a bundle's folder, a policy or a votes file.
        json: print JSON instead of tables.
    """
    if path.is_dir() and not is_bundle(path):
        raise QuorateError(f"{path}: is a folder without manifest.json, so no bundle: give a bundle, a policy or votes")
    table: Any = None
    if path.is_dir():
        bundle = read_bundle(path)
        document, table = about_bundle(bundle), bundle.macs
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
    print_table(["", ""], [[name, _plain(value)] for name, value in document.items() if name not in ("kind", "macs")])
    if table is not None:
        print_costs(np.asarray(table))


def about_bundle(bundle: Bundle) -> dict[str, Any]:
    """What a bundle says of itself."""
    num_exits, num_learners = bundle.macs.shape
    sizes = [(bundle.path / name).stat().st_size for name in bundle.sha256]
    specs = [spec for spec in bundle.inputs if spec is not None]
    inputs = sorted({f"{spec.channels} x {spec.height} x {spec.width}" for spec in specs})
    return {
        "kind": "bundle",
        "policy": str(bundle.policy),
        "learners": num_learners,
        "exits": num_exits,
        "classes": list(bundle.classes),
        "inputs": inputs or "tensors",
        "branches": sum(name is not None for row in bundle.branches for name in row),
        "chained": bundle.chained,
        "bytes": sum(sizes),
        "macs": bundle.macs.tolist(),
        **bundle.about,
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


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        shown = ", ".join(map(_plain, value[:10]))
        return (f"{shown}, ... ({len(value)})" if len(value) > 10 else shown) or "none"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _starts_as_json(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(64).lstrip()[:1] == b"{"
    except OSError:
        return False
