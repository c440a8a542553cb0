"""What commands on a run share: its votes, its data, what is written about it, and the document of results.

A run is read as it lies on disk: `config.json` says what it was trained on, `committee.json` who decides, and where
there is something to read in `phases.json`, `tuning.json` and `costs.json` it is shown.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from quorate import __version__
from quorate.errors import QuorateError
from quorate.report.results import parts_of, read_results, results_of, write_results
from quorate.squad import Policy, Votes, policy_to_document
from quorate.store import read_votes
from quorate.store.run import CommitteeRecord, RunFolder, read_committee, read_config

if TYPE_CHECKING:
    from quorate.data.dataset import Dataset
    from quorate.engine.committee import Committee

__all__ = ["RunParts", "about_run", "dataset_of", "images_of", "record_where_none", "results_for", "run_parts"]

Progress = Callable[[str, int, int], None]


class RunParts(NamedTuple):
    """A run as it lies on disk."""

    path: Path
    record: CommitteeRecord
    config: dict[str, Any]

    @property
    def votes(self) -> Path:
        """Where its votes are, or will be."""
        return self.path / "votes" / "votes.safetensors"

    @property
    def results(self) -> Path:
        """Where its results are, or will be."""
        return self.path / "report" / "results.json"

    @property
    def calibration(self) -> tuple[float, int]:
        """Share and seed of the calibration split."""
        training = self.config.get("training") or {}
        return float(training.get("calibration", 0.1)), int(training.get("seed", 0))


def run_parts(path: Path) -> RunParts:
    """Read a run.

    Raises:
        QuorateError: there is none, it is not finished, or it is damaged.
    """
    folder = RunFolder(path)
    if not path.is_dir():
        raise QuorateError(f"{path}: there is no such run; give the folder that `quorate run` or `quorate train` wrote")
    if not folder.committee.is_file():
        raise QuorateError(f"{path}: is not a finished run (no committee.json): train it to its end first")
    return RunParts(path, read_committee(folder.committee), read_config(folder.config))


def dataset_of(run: RunParts, data: str | None = None, root: Path | None = None) -> "Dataset":
    """The data set that a run was trained on, by what its configuration says.

    Args:
        run: whose.
        data: another name for it (a folder that has moved).
        root: where named data sets are now.

    Raises:
        QuorateError: it cannot be found, or it is another one.
    """
    from quorate.data import load

    about, told = run.config.get("about") or {}, run.config.get("data") or {}
    spec = data or about.get("data") or told.get("name")
    if not spec:
        raise QuorateError(f"{run.path}: does not say what it was trained on: name it with --data")
    where = root or about.get("root")
    _, seed = run.calibration
    found = load(str(spec), root=where, side=int(about.get("side") or 64), seed=int(about.get("seed", seed)))
    if list(found.classes) != list(run.record.classes):
        raise QuorateError(f"{spec}: has other classes than the run {run.path}: name its data set with --data")
    return found


def images_of(run: RunParts, dataset: "Dataset", split: str) -> tuple[Any, Any]:
    """Images and labels of a split, in the order in which votes are recorded."""
    from quorate.data.splits import split as split_up

    if split == "test":
        return dataset.test_images, dataset.test_labels
    share, seed = run.calibration
    parts = split_up(dataset.train_labels, seed, calibration=share)
    positions = {"train": parts.train, "calibration": parts.calibration}
    if split not in positions:
        raise ValueError(f"split must be test, train or calibration, got {split!r}")
    return dataset.train_images[positions[split]], dataset.train_labels[positions[split]]


def record_where_none(run: RunParts, committee: "Committee | None", dataset: Callable[[], "Dataset"]) -> Votes:
    """The votes of a run on its calibration and test parts; recorded first where there are none.

    Args:
        run: whose.
        committee: its learners; None: they are loaded if they are needed.
        dataset: called where images are needed.
    """
    if run.votes.is_file():
        return read_votes(run.votes)
    from quorate.engine.runs import load_run
    from quorate.store.faults import on_disk
    from quorate.train.evaluation import record_votes

    learners = (committee or load_run(run.path)).learners
    if learners is None:
        raise QuorateError(f"{run.votes}: there are no votes, and a bundle cannot record them: give the run")
    share, seed = run.calibration
    with on_disk(run.votes.parent, "written"):
        run.votes.parent.mkdir(exist_ok=True)
    names = [one.name for one in run.record.learners]
    specs = [one.input for one in run.record.learners]
    record_votes(list(learners), dataset(), run.votes, inputs=specs, calibration=share, seed=seed,
                 metadata={"learners": names})  # fmt: skip
    return read_votes(run.votes)  # as everybody else will read them


def about_run(run: RunParts) -> dict[str, Any]:
    """What results and pages say of a run besides its votes."""
    told = run.config.get("data") or {}
    shown = ("learners", "training", "about", "versions", "hardware", "git", "data", "search", "recipe", "selector")
    config = {name: run.config[name] for name in shown if name in run.config}
    phases = _plain(run.path / "phases.json")
    seconds = {name: float(t) for name, t in phases.items() if isinstance(t, int | float) and not isinstance(t, bool)}
    return {
        "quorate": __version__,
        "run": run.path.absolute().name,
        "data": {"name": told.get("name"), "source": told.get("source")},
        "learners": [one.name for one in run.record.learners],
        "config": config,
        "phases": seconds,
        "tuning": _plain(run.path / "tuning.json"),
    }


def _plain(path: Path) -> dict[str, Any]:
    """A JSON object that another phase wrote; empty where there is none."""
    if not path.is_file():
        return {}
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise QuorateError(f"{path}: is not JSON ({error}): run the phase that writes it again") from None
    return {k: v for k, v in body.items() if k not in ("schema", "version", "sha256")} if isinstance(body, dict) else {}


def results_for(
    run: RunParts,
    votes: Votes,
    *,
    split: str | None = None,
    policy: Policy | None = None,
    max_drop: float = 0.5,
    engine: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The document of results of a run, written to its report; the one that lies there where nothing has changed.

    Args:
        run: whose.
        votes: all of its votes.
        split: the samples that judge; "test" unless said otherwise.
        policy: that decides, in place of the committee's own.
        max_drop: points that policies may lose where their thresholds are chosen.
        engine: what an evaluation with the networks found; None: what an earlier one found, if nothing has changed.
        progress: called with what is being done, the steps done, and of how many.
    """
    judging, choosing, where = parts_of(votes, split)
    decides = policy or run.record.policy
    mark = _mark(judging, choosing, decides, max_drop)
    if run.results.is_file():
        try:
            before = read_results(run.results)
        except QuorateError:
            before = {}
        if before.get("made_of") == mark:
            current = {**before, **about_run(run), "learners": before["learners"], **where}
            if engine is not None:
                current["engine"] = dict(engine)
            write_results(run.results, current)
            return current
    about = {**about_run(run), **where, "made_of": mark}
    if engine is not None:
        about["engine"] = dict(engine)
    results = results_of(judging, choosing, policy=decides, max_drop=max_drop, about=about, progress=progress)
    write_results(run.results, results)
    return read_results(run.results)


def _mark(judging: Votes, choosing: Votes, policy: Policy, max_drop: float) -> str:
    """Of everything that results follow from."""
    sums = hashlib.sha256(__version__.encode())
    for votes in (judging, choosing):
        for array in (votes.probs, votes.labels, votes.macs):
            sums.update(np.ascontiguousarray(array).tobytes())
        sums.update(repr({size: np.asarray(t).tolist() for size, t in (votes.milliseconds or {}).items()}).encode())
    sums.update(json.dumps(policy_to_document(policy), sort_keys=True).encode())
    sums.update(f"{max_drop!r}".encode())
    return sums.hexdigest()
