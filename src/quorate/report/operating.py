"""Operating points: the threshold that calibration chooses for each policy, and everything it amounts to on test.

Two devices are chosen for, one that runs what a vote needs (lazy cost) and K that run ahead (free-running latency);
beside the points stand whole sweeps, so that a reader can move them.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``G`` thresholds. This file does not know how numbers are shown.
"""

from typing import Any

import numpy as np

from quorate.report.summary import judge
from quorate.squad import COSTS, Confidence, Policy, Priced, Rule, Static, Votes, Wish, trace
from quorate.squad.candidates import Candidate, Fitted, level_of, scaled
from quorate.squad.judging import Judge

__all__ = ["MAIN", "alone", "at_thresholds", "entry", "operating_points", "sweep", "sweeps"]

MAIN = (
    "SQUAD, mean",
    "SQUAD, t-test",
    "pool, gate, depth-first",
    "pool, gate, order of arrival",
    "soft vote so far, depth-first",
    "soft vote so far, order of arrival",
    "cascade of whole learners",
    "agreement",
    "one learner, confidence",
)
"""Groups whose whole sweep a report holds."""


def entry(votes: Votes, policy: Policy, **about: Any) -> dict[str, Any]:
    """A policy on the samples that judge, as a document.

    Example:
        >>> votes = Votes(np.array([[[[0.9, 0.1]]]]), np.array([0]), np.ones((1, 1)))
        >>> entry(votes, Static(), group="static")["accuracy"]
        1.0
    """
    return {**about, "policy": str(policy), **judge(votes, policy).as_json()}


def operating_points(judging: Judge, votes: Votes, wish: Wish) -> list[dict[str, Any]]:
    """Every group of policies on every device at the threshold that calibration chooses; the static ensemble apart.

    Args:
        judging: who has a calibration split; one who judges in milliseconds chooses policies that ask by milliseconds.
        votes: the samples that judge, with milliseconds where they are known.
        wish: the drop that is allowed.
    """
    rows = []
    for device in judging.devices:
        for group, members in judging.groups(lambda c: c.family != "static").items():
            at, g, kept = judging.pick(members, device, wish)
            candidate = judging.judging[at].candidate
            policy = candidate.make(judging.fits[0], candidate.grid[g])
            if device == "milliseconds":
                policy = Priced(policy, judging.votes.macs.tolist())
            about = {"device": device, "group": group, "family": candidate.family, "variant": candidate.name}
            rows.append(entry(votes, policy, **about, threshold=candidate.grid[g], kept=kept))
    return rows


def alone(judging: Judge, votes: Votes, wish: Wish) -> list[dict[str, Any]]:
    """Each learner by itself: whole, and with a confidence exit."""
    rows = []
    members = [i for mine in judging.groups(lambda c: c.family == "confidence").values() for i in mine]
    fitted = judging.fits[0]
    for k in range(votes.macs.shape[1]):
        mine, own = only(votes, k), fitted._replace(temperatures=fitted.temperatures[:, k : k + 1])
        row: dict[str, Any] = {"learner": k, "static": entry(mine, scaled(own, Static()))}
        if members:
            at, g, kept = judging.pick([members[k]], "lazy", wish)
            threshold = judging.judging[at].candidate.grid[g]
            row["confidence"] = entry(mine, scaled(own, Confidence(0, threshold)), threshold=threshold, kept=kept)
        rows.append(row)
    return rows


def only(votes: Votes, k: int) -> Votes:
    """The votes of one learner, as a committee of one.

    Example:
        >>> only(Votes(np.ones((1, 2, 3, 1)), np.zeros(3, int), np.array([[1.0, 2.0]])), 1).macs
        array([[2.]])
    """
    return votes._replace(
        probs=votes.probs[:, k : k + 1],
        macs=votes.macs[:, k : k + 1],
        present=None if votes.present is None else votes.present[:, k : k + 1],
        order=None,
        arrival=None,
        milliseconds={size: t[:, k : k + 1] for size, t in (votes.milliseconds or {}).items()} or None,
    )


def at_thresholds(votes: Votes, threshold: float) -> list[dict[str, Any]]:
    """The rule at a threshold of the paper, with each criterion it can have, on probabilities as they are."""
    criteria = ("mean", "t-test") if votes.macs.shape[1] > 1 else ("mean",)
    return [
        entry(votes, Rule(c, threshold), group=f"SQUAD, {c}", threshold=threshold)  # type: ignore[arg-type]
        for c in criteria
    ]


def sweeps(judging: Judge, votes: Votes, wish: Wish) -> list[dict[str, Any]]:
    """The sweep of each main group, of the variant that calibration chooses, with the chosen points by device."""
    found = []
    for group, members in judging.groups(lambda c: c.group in MAIN).items():
        picks = {device: judging.pick(members, device, wish) for device in judging.devices}
        at = picks["free-running" if "arrival" in group else "lazy"][0]
        candidate = judging.judging[at].candidate
        chosen = {device: judging.pick([at], device, wish)[1] for device in judging.devices}
        found.append({
            "group": group, "family": candidate.family, "variant": candidate.name, "chosen": chosen,
            **sweep(candidate, judging.fits[0], votes),
        })  # fmt: skip
    return found


def sweep(candidate: Candidate, fitted: Fitted, votes: Votes) -> dict[str, Any]:
    """A candidate at every threshold: accuracy, mean costs and shares of the exits, rounded to six digits."""
    policy = candidate.make(fitted, candidate.grid[0])
    given: dict[str, Any] = {"order": votes.order, "arrival": votes.arrival, "present": votes.present,
                             "chained": votes.chained}  # fmt: skip
    points = trace(votes.probs, votes.macs, policy, **given)
    timed = None
    if votes.milliseconds and votes.order is None:
        charged = votes.milliseconds[min(votes.milliseconds)]
        timed = trace(votes.probs, votes.macs, policy, **given, charged=charged).costs.lazy_macs
    n, num_exits = len(votes.labels), len(votes.macs)
    rows: list[tuple[Any, ...]] = []
    for threshold in candidate.grid:
        at, passed = points.first(level_of(candidate.make(fitted, threshold), threshold))
        pick = (at, np.arange(n))
        exits = points.exit[pick]
        spent = {name: float(getattr(points.costs, field)[pick].mean()) for name, field in COSTS.items()}
        if timed is not None:
            spent["milliseconds"] = float(timed[pick].mean())
        left = np.bincount(exits[passed], minlength=num_exits) / n
        rows.append((threshold, float((points.label[pick] == votes.labels).mean()), spent, left, 1 - passed.mean()))
    accuracy = np.array([row[1] for row in rows])
    names = [name for name, value in rows[0][2].items() if not np.isnan(value)]
    return {
        "thresholds": _short(row[0] for row in rows),
        "accuracy": _short(accuracy),
        "accuracy_error": _short(np.sqrt(accuracy * (1 - accuracy) / n)),
        "costs": {name: _short(row[2][name] for row in rows) for name in names},
        "left": [_short(row[3][e] for row in rows) for e in range(num_exits)],
        "forced": _short(row[4] for row in rows),
    }


def _short(values: Any) -> list[float]:
    return [float(f"{float(value):.6g}") for value in values]
