"""What commands on a run share: its votes, its data, what is written about it, and the document of results.

A run is read as it lies on disk: ``config.json`` says what it was trained on, ``committee.json`` who decides, and where
they exist ``phases.json``, ``tuning.json``, ``costs.json`` and ``report/bench.json`` are taken in.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quorate import __version__
from quorate.cli.common import votes_at
from quorate.errors import QuorateError
from quorate.report.results import parts_of, read_results, results_of, write_results
from quorate.squad import Policy, Votes, policy_to_document
from quorate.store import read_policy
from quorate.store.phases import Phases
from quorate.store.run import CommitteeRecord, RunFolder, read_committee, read_config
from quorate.store.tuning import read_tuning

if TYPE_CHECKING:
    from quorate.data.dataset import Dataset
    from quorate.nets import Learner

__all__ = [
    "DROP",
    "RunParts",
    "about_run",
    "allowed",
    "dataset_of",
    "images_of",
    "results_for",
    "run_parts",
    "votes_of",
]

Progress = Callable[[str, int, int], None]
DROP = 0.5
"""Points that policies may lose where nobody said more or less."""


class RunParts(NamedTuple):
    """A run as it lies on disk."""

    place: RunFolder
    record: CommitteeRecord
    config: dict[str, Any]

    @property
    def results(self) -> Path:
        """Where its results are, or will be."""
        return self.place.report / "results.json"


def run_parts(path: Path) -> RunParts:
    """Read a run.

    Raises:
        QuorateError: there is none, it is not finished, or it is damaged.
    """
    place = RunFolder(path)
    if not path.is_dir():
        raise QuorateError(f"{path}: there is no such run; give the folder that `quorate run` or `quorate train` wrote")
    if not place.committee.is_file():
        raise QuorateError(f"{path}: is not a finished run (no committee.json): train it to its end first")
    return RunParts(place, read_committee(place.committee), read_config(place.config))


def dataset_of(run: RunParts, data: str | None = None, root: Path | None = None) -> "Dataset":
    """The data set that a run was trained on, by what its configuration says, or where it lies now.

    Raises:
        QuorateError: it cannot be found, or it is another one.
    """
    from quorate.train.again import data_of_run

    return data_of_run(run.place.path, data=data, root=root)


def images_of(run: RunParts, dataset: "Dataset", split: str) -> tuple[Any, Any]:
    """Images and labels of a split, in the order in which votes are recorded."""
    from quorate.data.splits import split as split_up
    from quorate.train.again import splitting_of_run

    if split == "test":
        return dataset.test_images, dataset.test_labels
    how = splitting_of_run(run.place.path)
    parts = split_up(dataset.train_labels, how.seed, calibration=how.calibration)
    positions = {"train": parts.train, "calibration": parts.calibration}
    if split not in positions:
        raise ValueError(f"split must be test, train or calibration, got {split!r}")
    return dataset.train_images[positions[split]], dataset.train_labels[positions[split]]


def votes_of(
    run: RunParts,
    dataset: "Callable[[], Dataset]",
    split: str = "test",
    own: "Mapping[int, Learner] | None" = None,
) -> Votes:
    """The votes of a run, with the milliseconds that were measured of it; recorded first where there are none.

    Args:
        run: whose.
        dataset: called where images are needed.
        split: the samples that judge, beside those of calibration.
        own: by number, networks of the user's own, which no file can build.
    """
    path = run.place.votes
    there = votes_at(run.place.path)[0] if path.is_file() else None
    if there is not None and (there.split is None or split in there.split.tolist()):
        return there
    from quorate.train.again import votes_of_run

    splits = dict.fromkeys(("calibration", "test", split))
    votes_of_run(run.place.path, tuple(splits), data=dataset(), own=dict(own) if own else None)
    return votes_at(run.place.path)[0]  # as everybody else will read them


def about_run(run: RunParts) -> dict[str, Any]:
    """What results and pages say of a run besides its votes."""
    told = run.config.get("data") or {}
    return {
        "quorate": __version__,
        "run": run.place.path.absolute().name,
        "data": {"name": told.get("name"), "source": told.get("source")},
        "learners": [one.name for one in run.record.learners],
        "config": {name: value for name, value in run.config.items() if name != "splits"},
        "phases": Phases.read(run.place.phases).seconds,
        "tuning": read_tuning(run.place.path),
        "bench": _bench(run),
    }


def _bench(run: RunParts) -> dict[str, Any] | None:
    """What was measured of the run's bundle, unless another policy decides by now."""
    from quorate.recipes.measuring import read_bench

    exported = run.place.bundle / "policy.json"
    if not exported.is_file() or policy_to_document(read_policy(exported)[0]) != policy_to_document(run.record.policy):
        return None
    return read_bench(run.place)


def results_for(
    run: RunParts,
    votes: Votes,
    *,
    split: str | None = None,
    policy: Policy | None = None,
    max_drop: float | None = None,
    engine: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The document of results of a run, written to its report; the one that lies there where nothing has changed.

    Args:
        run: whose.
        votes: all of its votes.
        split: the samples that judge; "test" unless said otherwise.
        policy: that decides, in place of the committee's own.
        max_drop: points that policies may lose where their thresholds are chosen; None: as the run was tuned.
        engine: what an evaluation with the networks found; None: what an earlier one found, if nothing has changed.
        progress: called with what is being done, the steps done, and of how many.
    """
    judging, choosing, where = parts_of(votes, split)
    decides = policy or run.record.policy
    drop = allowed(run) if max_drop is None else max_drop
    votes_mark = _mark(judging, choosing, decides)
    mark = f"{votes_mark} {drop:g}"
    if run.results.is_file():
        try:
            before = read_results(run.results)
        except QuorateError:
            before = {}
        if before.get("made_of") == mark:
            current = {**before, **about_run(run), "learners": before["learners"]}
            if engine is not None:
                current["engine"] = dict(engine)
            write_results(run.results, current)
            return current
        if engine is None and str(before.get("made_of")).startswith(f"{votes_mark} "):
            engine = before.get("engine")  # what engines answer does not depend on what others may lose
    about = {**about_run(run), **where, "made_of": mark}
    if engine is not None:
        about["engine"] = dict(engine)
    results = results_of(judging, choosing, policy=decides, max_drop=drop, about=about, progress=progress)
    write_results(run.results, results)
    return read_results(run.results)


def allowed(run: RunParts) -> float:
    """The points that a run was tuned to lose at most, so that others are judged by the same wish."""
    wished = ((read_tuning(run.place.path) or {}).get("wish") or {}).get("max_drop")
    return DROP if wished is None else float(wished)


def _mark(judging: Votes, choosing: Votes, policy: Policy) -> str:
    """Of everything that results follow from, but for the wish."""
    sums = hashlib.sha256(__version__.encode())
    for votes in (judging, choosing):
        for array in (votes.probs, votes.labels, votes.macs):
            sums.update(np.ascontiguousarray(array).tobytes())
        sums.update(repr({size: np.asarray(t).tolist() for size, t in (votes.milliseconds or {}).items()}).encode())
    sums.update(json.dumps(policy_to_document(policy), sort_keys=True).encode())
    return sums.hexdigest()
