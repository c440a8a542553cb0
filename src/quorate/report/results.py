"""One document of results: every policy, cost and measure of a committee, from its votes.

Thresholds are chosen on the calibration samples and shown on the others. The document is plain JSON with a schema and
a version; pages and tables are made from it alone, so that a run can be looked at again without its networks.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know how numbers are shown.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from quorate.data.splits import held_out
from quorate.measures import ece
from quorate.report.answers import answers
from quorate.report.operating import alone, at_thresholds, entry, operating_points, sweeps
from quorate.report.published import PUBLISHED
from quorate.report.summary import classes_of, decide
from quorate.squad import Policy, Static, Votes, Wish
from quorate.squad.candidates import FAMILIES, Progress, scaled
from quorate.squad.comparison import comparison_of, judges_of
from quorate.store.schema import read_document, write_document

__all__ = ["SCHEMA", "VERSION", "parts_of", "read_results", "results_of", "write_results"]

SCHEMA, VERSION = "quorate.results", 1
HALVED = "half of the samples, drawn by class"


def results_of(
    votes: Votes,
    calibration: Votes,
    *,
    policy: Policy | None = None,
    max_drop: float = 0.5,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Everything that the votes say of a committee.

    Args:
        votes: the samples that judge.
        calibration: the samples that everything is fitted and every threshold is chosen on.
        policy: the committee's own; None: it has none yet.
        max_drop: points that the policies may lose against the static soft vote where their thresholds are chosen.
        about: what else is known, as JSON can say it: ``run``, ``data`` (``name``, ``source``), ``split``,
            ``calibration`` (where those samples are from), ``learners`` (names), ``config``, ``phases``, ``engine``,
            ``tuning``.
        progress: called with what is being done, the steps done, and of how many.

    Returns:
        The document; ``docs/report.md`` explains its fields.

    Raises:
        ValueError: calibration and judging samples are of different committees, or too few.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=300)
        >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2, 2, 300, 3))
        >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        >>> votes = Votes(probs, labels, np.ones((2, 2)), np.repeat(["calibration", "test"], 150))
        >>> document = results_of(votes.of("test"), votes.of("calibration"), max_drop=2)
        >>> document["samples"], sorted({row["device"] for row in document["policies"]})
        (150, ['free-running', 'lazy'])
    """
    if votes.macs.shape != calibration.macs.shape or votes.probs.shape[3] != calibration.probs.shape[3]:
        raise ValueError("calibration and judging votes must be of the same committee")
    wish = Wish(max_drop=max_drop)
    judges = judges_of(votes, calibration, FAMILIES, progress)
    judging = judges[0]
    static = scaled(judging.fits[0], Static())
    classes = votes.probs.shape[3]
    told = {"static": static} | ({} if policy is None else {"own": policy})
    compared = comparison_of(judges).as_json()
    del compared["curves"]
    about = dict(about or {})
    known = PUBLISHED.get((about.get("data") or {}).get("name", ""))
    return {
        **about,
        "samples": len(votes.labels),
        "calibration_samples": len(calibration.labels),
        "exits": votes.macs.shape[0],
        "learners": _learners(votes, about.get("learners")),
        "classes": list(map(str, votes.metadata.get("classes", range(classes)))),
        "macs": np.asarray(votes.macs).tolist(),
        "milliseconds": {str(size): np.asarray(t).tolist() for size, t in (votes.milliseconds or {}).items()},
        "chained": votes.chained,
        "wish": asdict(wish),
        "static": entry(votes, static),
        "own": None if policy is None else entry(votes, policy),
        "policies": [row for one in judges for row in operating_points(one, votes, wish)],
        "alone": alone(judging, votes, wish),
        "at_published_threshold": [] if known is None else at_thresholds(votes, known.threshold),
        "sweeps": sweeps(judging, votes, wish),
        "answers": {name: _answers(votes, one, classes) for name, one in told.items()},
        "comparison": compared,
    }


def _answers(votes: Votes, policy: Policy, classes: int) -> dict[str, Any]:
    outcome = decide(votes, policy)
    return answers(np.asarray(votes.labels), outcome.label, outcome.confidence, classes)


def _learners(votes: Votes, names: Any) -> list[dict[str, Any]]:
    """Each learner's exits on the judging samples."""
    num_exits, num_learners = votes.macs.shape
    classes_EKN = classes_of(votes)
    sure_EKN = np.minimum(np.nan_to_num(votes.probs).max(-1), 1)
    whole = votes.macs.sum(0) if votes.chained else votes.macs[-1]
    names = names or votes.metadata.get("learners") or [f"learner {k}" for k in range(num_learners)]

    def exits(k: int) -> dict[str, Any]:
        accuracy: list[float | None] = []
        error: list[float | None] = []
        for e in range(num_exits):
            right, there = classes_EKN[e, k] == votes.labels, classes_EKN[e, k] >= 0
            accuracy.append(float(right.mean()) if there.any() else None)
            error.append(ece(sure_EKN[e, k], right) if there.any() else None)
        return {"accuracy": accuracy, "ece": error}

    return [{"name": str(name), "macs": float(whole[k]), **exits(k)} for k, name in enumerate(names)]


def parts_of(
    votes: Votes, split: str | None = None, calibration: str | None = None
) -> tuple[Votes, Votes, dict[str, str]]:
    """The samples that judge, those to choose on, and where both are from.

    Without a calibration split the samples are divided in two, class by class.

    Args:
        votes: with or without splits.
        split: the one that judges; by default "test" where there is one, else all that is not calibration.
        calibration: the one to choose on; by default "calibration" where there is one.

    Example:
        >>> votes = Votes(np.full((1, 1, 4, 2), 0.5), np.array([0, 1, 0, 1]), np.ones((1, 1)))
        >>> judging, choosing, _ = parts_of(votes)
        >>> len(judging.labels), len(choosing.labels)
        (2, 2)
    """
    names = [] if votes.split is None else np.unique(votes.split).tolist()
    held = calibration or ("calibration" if "calibration" in names else None)
    which = split or ("test" if "test" in names else None)
    if held is not None and held == which:
        raise ValueError(f"split and calibration must be different samples, got {held!r} for both")
    if held is None:
        part = votes if which is None else votes.of(which)
        apart = held_out(part.labels, 0.5, 0)
        where = {"split": f"{which or 'all'}, the other half", "calibration": HALVED}
        return part.rows(np.flatnonzero(~apart)), part.rows(np.flatnonzero(apart)), where
    choosing = votes.of(held)
    if which is not None:
        return votes.of(which), choosing, {"split": which, "calibration": held}
    rest = np.flatnonzero(np.asarray(votes.split) != held)
    if not len(rest):
        raise ValueError(f"there are no samples but those of {held!r}: record others to judge on")
    return votes.rows(rest), choosing, {"split": f"all but {held}", "calibration": held}


def write_results(path: str | os.PathLike[str], results: Mapping[str, Any]) -> None:
    """Write ``results.json``, whole or not at all, making its folder."""
    from quorate.store.faults import on_disk

    with on_disk(Path(path).parent, "written"):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_document(path, SCHEMA, VERSION, results)


def read_results(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What ``results.json`` says.

    Raises:
        QuorateError: one line, when it is missing, broken, changed, foreign or too new.
    """
    return read_document(path, SCHEMA, VERSION)
