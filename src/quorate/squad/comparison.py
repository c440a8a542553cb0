"""Every policy on the same votes: what each needs to come within so many points of the static ensemble.

Two ways of choosing a threshold stand side by side. On the calibration split (or cross-fitted, where there is one split
only) the threshold is chosen on samples that do not judge it: what a user would get. On the curve it is the cheapest
that the judging samples themselves allow: what literature reports, and an optimist's figure.

Shapes: ``N`` samples, ``G`` thresholds, ``R`` resamples. This file does not know how any policy decides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from quorate.squad.candidates import FAMILIES, Candidate, Curve, Progress, traced
from quorate.squad.cost import COSTS
from quorate.squad.judging import Judge
from quorate.squad.tracing import Trace
from quorate.squad.tuning import Wish, choose, in_milliseconds
from quorate.squad.votes import Votes

__all__ = ["DEVICES", "Comparison", "Duel", "Reading", "compare", "comparison_of", "judges_of", "readings_by"]

Array: TypeAlias = np.ndarray[Any, Any]

DROPS = (2.0, 1.0, 0.5, 0.0)
RESAMPLES = 2000
DEVICES = {"lazy": "one device", "free-running": "K devices", "milliseconds": "one device, measured"}


class Reading(NamedTuple):
    """What a policy needs within an allowed drop.

    Attributes:
        group: the policy.
        variant: which of its variants was chosen.
        device: ``"lazy"``, ``"free-running"`` or ``"milliseconds"``.
        allowed: points that may be lost.
        how: ``"calibration"`` or ``"curve"``: where the threshold was chosen.
        cost: mean cost; None where no threshold comes so close (on the samples it is chosen on).
        drop: points really lost on the judging samples.
    """

    group: str
    variant: str
    device: str
    allowed: float
    how: str
    cost: float | None
    drop: float


class Duel(NamedTuple):
    """The pool (without one, SQUAD) against a rival, both chosen where readings are; 95 % intervals.

    Attributes:
        device, allowed: as in :class:`Reading`.
        champion, rival: the variants.
        champion_keeps, rival_keeps: whether a threshold comes so close on the samples it is chosen on; otherwise the
            closest one is judged.
        saved: share of the rival's cost that the champion saves.
        saved_interval: of that share.
        gained: points of accuracy that the champion has over the rival.
        gained_interval: of those.
        told_apart: whether the accuracies differ beyond chance.
    """

    device: str
    allowed: float
    champion: str
    rival: str
    champion_keeps: bool
    rival_keeps: bool
    saved: float
    saved_interval: tuple[float, float]
    gained: float
    gained_interval: tuple[float, float]
    told_apart: bool


@dataclass(frozen=True)
class Comparison:
    """All readings, all duels, and what they are measured against.

    Attributes:
        samples: that judge.
        calibration: samples that thresholds were chosen on; None: cross-fitted among those that judge.
        static_accuracy: of the soft vote of all learners.
        static_costs: its cost by device.
        readings, duels: see there.
        oracle: by device and path, ``(cost, accuracy)`` of stopping at the first right answer of the pool, and at its
            first answer where none is right: at this accuracy no stopping rule on the path is cheaper.
        curves: by device and group, the points ``(threshold, cost, accuracy)`` of its variant on the judging samples.
    """

    samples: int
    calibration: int | None
    static_accuracy: float
    static_costs: dict[str, float]
    readings: list[Reading]
    duels: list[Duel]
    oracle: dict[str, dict[str, tuple[float, float]]]
    curves: dict[str, dict[str, list[tuple[float, float, float]]]]

    def as_json(self) -> dict[str, Any]:
        """Ready for ``json.dump``."""
        document = asdict(self)
        document["readings"] = [reading._asdict() for reading in self.readings]
        document["duels"] = [duel._asdict() for duel in self.duels]
        return document


def compare(
    votes: Votes,
    calibration: Votes | None = None,
    policies: Sequence[str] = FAMILIES,
    drops: Sequence[float] = DROPS,
    progress: Progress | None = None,
) -> Comparison:
    """Compare every policy on ``votes``.

    Args:
        votes: the samples that judge.
        calibration: samples to fit and choose on; None: five-fold cross-fitting among ``votes``.
        policies: families, see :data:`quorate.squad.candidates.FAMILIES`; the static ensemble is always there.
        drops: points that may be lost against the static ensemble.
        progress: called with what is being done, the steps done, and of how many.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=300)
        >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2, 2, 300, 3))
        >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        >>> compared = compare(Votes(probs, labels, np.ones((2, 2))), policies=["squad"], drops=[1.0])
        >>> sorted({reading.group for reading in compared.readings})
        ['SQUAD, mean', 'SQUAD, t-test', 'static soft vote']
    """
    return comparison_of(judges_of(votes, calibration, policies, progress), drops)


def judges_of(
    votes: Votes,
    calibration: Votes | None = None,
    policies: Sequence[str] = FAMILIES,
    progress: Progress | None = None,
) -> list[Judge]:
    """The judges of one device and of K, and where milliseconds were measured, of those; arguments as :func:`compare`.

    Example:
        >>> votes = Votes(np.full((1, 1, 20, 2), 0.5), np.zeros(20, int), np.ones((1, 1)))
        >>> [judge.devices for judge in judges_of(votes, policies=["squad"])]
        [('lazy', 'free-running')]
    """
    judges = [Judge(votes, calibration, policies, ("lazy", "free-running"), progress)]
    if votes.milliseconds and (calibration is None or calibration.milliseconds):
        batch = min(votes.milliseconds)
        timed = None if calibration is None else in_milliseconds(calibration, batch)
        judges.append(Judge(in_milliseconds(votes, batch), timed, policies, ("milliseconds",), progress))
    return judges


def comparison_of(judges: Sequence[Judge], drops: Sequence[float] = DROPS) -> Comparison:
    """What :func:`compare` says, of judges that are there already.

    Example:
        >>> votes = Votes(np.full((1, 1, 20, 2), 0.5), np.zeros(20, int), np.ones((1, 1)))
        >>> comparison_of(judges_of(votes, policies=["squad"]), [1.0]).static_accuracy
        1.0
    """
    first = judges[0]
    readings, duels = [], []
    oracle, curves, costs = {}, {}, {}
    for judge in judges:
        for device in judge.devices:
            readings += [r for allowed in drops for r in _readings(judge, device, allowed)]
            duels += [d for allowed in drops for d in _duels(judge, device, allowed)]
            oracle[device] = _oracle(judge, device)
            curves[device] = _points(judge, device)
            costs[device] = float(judge.static.costs[judge.cost(device)].mean())
    return Comparison(
        samples=len(first.votes.labels),
        calibration=None if first.calibration is None else len(first.calibration.labels),
        static_accuracy=float(first.static.right.mean()),
        static_costs=costs,
        readings=readings,
        duels=duels,
        oracle=oracle,
        curves=curves,
    )


def _readings(judge: Judge, device: str, allowed: float) -> list[Reading]:
    """Both readings of every group."""
    found = []
    soft = judge.static.right[0].mean()
    cost, wish = judge.cost(device), Wish(max_drop=allowed)
    for group, members in judge.groups().items():
        variant, right, spent, kept = judge.chosen(members, device, allowed)
        drop = 100 * float(soft - right.mean())
        found.append(
            Reading(group, variant, device, allowed, "calibration", float(spent.mean()) if kept else None, drop)
        )
        mine = [judge.judging[i] for i in members]
        at, g = choose(mine, judge.static, wish, cost)
        drop = 100 * float(soft - mine[at].right[g].mean())
        spent_mean = float(mine[at].costs[cost][g].mean(dtype=np.float64))
        name = mine[at].candidate.name
        kept = wish.keeps(drop, 0.0)
        found.append(Reading(group, name, device, allowed, "curve", spent_mean if kept else None, drop))
    return found


def _duels(judge: Judge, device: str, allowed: float) -> list[Duel]:
    """The pool against SQUAD and against the best of all others; without pools SQUAD against the others."""

    def of(keep: Any) -> list[int]:
        return [i for members in judge.groups(keep).values() for i in members]

    pools, squad = of(lambda c: c.family == "pool"), of(lambda c: c.family == "squad")
    others = of(lambda c: c.family not in ("pool", "static") and (pools or c.family != "squad"))
    champions, rivals = (pools, [squad, others]) if pools else (squad, [others])
    if not champions:
        return []
    mine = judge.chosen(champions, device, allowed)
    against = {}
    for members in rivals:
        if members:
            theirs = judge.chosen(members, device, allowed)
            against[theirs[0]] = _duel(device, allowed, mine, theirs)
    return list(against.values())


def _oracle(judge: Judge, device: str) -> dict[str, tuple[float, float]]:
    """Stopping at the first right answer along each path, or at the first answer where none is right."""
    bounds = {}
    for members in judge.groups(lambda c: c.family == "pool" and "gate" in c.group).values():
        i = members[0]
        if len(members) > 1:
            variant, *_ = judge.chosen(members, device, 0.5)
            i = next(j for j in members if judge.judging[j].candidate.name == variant)
        bounds[judge.judging[i].candidate.name] = _bound(judge, judge.judging[i].candidate, device)
    return bounds


def _bound(judge: Judge, candidate: Candidate, device: str) -> tuple[float, float]:
    spent = accuracy = 0.0
    for f, fitted in enumerate(judge.fits):
        part = judge.votes.rows(np.flatnonzero(judge.fold == f))
        points: Trace = traced(candidate, fitted, part)
        right = points.label == part.labels
        at = np.where(right.any(0), right.argmax(0), (points.label >= 0).argmax(0))[None]
        cost = getattr(points.costs, COSTS[judge.cost(device)])
        spent += float(np.take_along_axis(cost, at, 0).sum())
        accuracy += float(right.any(0).sum())
    return spent / len(judge.fold), accuracy / len(judge.fold)


def _points(judge: Judge, device: str) -> dict[str, list[tuple[float, float, float]]]:
    """The curve of each group's variant chosen at half a point."""
    curves = {}
    for group, members in judge.groups().items():
        variant, *_ = judge.chosen(members, device, 0.5)
        curve: Curve = next(judge.judging[i] for i in members if judge.judging[i].candidate.name == variant)
        spent, right = curve.costs[judge.cost(device)].mean(1, dtype=np.float64), curve.right.mean(1)
        if np.isfinite(spent).all():
            rows = zip(curve.candidate.grid, spent, right, strict=True)
            curves[group] = [(float(t), float(c), float(a)) for t, c, a in rows]
    return curves


def _duel(
    device: str, allowed: float, mine: tuple[str, Array, Array, bool], theirs: tuple[str, Array, Array, bool]
) -> Duel:
    """Paired bootstrap over the judging samples."""
    n = len(mine[1])
    table = np.stack([mine[2], theirs[2], mine[1], theirs[1]], axis=1).astype(np.float64)  # costs, then right
    rng = np.random.default_rng(0)
    means = np.concatenate([
        rng.multinomial(n, np.full(n, 1 / n), size=100) @ table / n for _ in range(RESAMPLES // 100)
    ])  # fmt: skip
    saved, gained = 1 - means[:, 0] / means[:, 1], 100 * (means[:, 2] - means[:, 3])
    at = table.mean(0)
    low, high = _percentiles(gained)
    return Duel(
        device, allowed, mine[0], theirs[0], mine[3], theirs[3], float(1 - at[0] / at[1]), _percentiles(saved),
        float(100 * (at[2] - at[3])), (low, high), not low <= 0 <= high,
    )  # fmt: skip


def _percentiles(values: Array) -> tuple[float, float]:
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def readings_by(readings: Sequence[Reading], device: str, how: str) -> Mapping[str, dict[float, Reading]]:
    """The readings of one table: by group, then by allowed drop."""
    table: dict[str, dict[float, Reading]] = {}
    for reading in readings:
        if (reading.device, reading.how) == (device, how):
            table.setdefault(reading.group, {})[reading.allowed] = reading
    return table
