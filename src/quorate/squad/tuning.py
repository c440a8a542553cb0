"""Tuning by wish: the cheapest policy that keeps what the user asks for, and how sure that promise is.

Weights, temperatures, paths and thresholds are all judged on samples they were not chosen on: five-fold cross-fitting
for what is fitted, and for the promise the choice itself is repeated without the fold that judges it.

Shapes: ``N`` samples, ``G`` thresholds. This file does not know how any policy decides.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from quorate.squad.candidates import (
    ALL_ORDERS,
    FAMILIES,
    FOLDS,
    Candidate,
    Curve,
    Progress,
    candidates,
    crossfit,
    fit,
    folds_of,
    pool_along,
)
from quorate.squad.cost import COSTS
from quorate.squad.protocol import Policy
from quorate.squad.votes import Votes

__all__ = ["Point", "Tuned", "Wish", "choose", "in_milliseconds", "tune"]

Array: TypeAlias = np.ndarray[Any, Any]
CostName: TypeAlias = Literal["lazy", "free-running", "free-running-energy", "f-m", "f-mt", "eager", "milliseconds"]


@dataclass(frozen=True)
class Wish:
    """What a user asks of a policy.

    Args:
        max_drop: points of accuracy that may be lost against the static soft vote; None: no matter.
        budget: mean cost per sample that must not be exceeded; None: no matter.
        cost: what is to be saved. ``"milliseconds"`` is lazy cost in measured time.
        batch: the batch size whose milliseconds count.

    With a ``max_drop`` the cheapest policy that keeps everything is chosen, with a budget alone the most accurate.
    """

    max_drop: float | None = None
    budget: float | None = None
    cost: CostName = "lazy"
    batch: int = 1

    def __post_init__(self) -> None:
        """Wish for half a point where nothing is said, and refuse what cannot be meant."""
        if self.max_drop is None and self.budget is None:
            object.__setattr__(self, "max_drop", 0.5)
        if self.max_drop is not None and not 0 <= self.max_drop <= 100:
            raise ValueError(f"max_drop must lie in 0 to 100 points, got {self.max_drop:g}")
        if self.budget is not None and not self.budget > 0:
            raise ValueError(f"budget must be positive, got {self.budget:g}")
        if self.cost not in (*COSTS, "milliseconds"):
            raise ValueError(f"cost must be one of {', '.join((*COSTS, 'milliseconds'))}, got {self.cost!r}")

    def keeps(self, drop: float, cost: float) -> bool:
        """Whether a policy that loses ``drop`` points at this mean cost is what was wished for."""
        within = self.max_drop is None or drop <= self.max_drop + 1e-9
        return within and (self.budget is None or cost <= self.budget)


class Point(NamedTuple):
    """One candidate at one threshold: accuracy in [0, 1], drop in points, mean of the wished cost."""

    family: str
    name: str
    threshold: float
    accuracy: float
    drop: float
    cost: float


@dataclass(frozen=True)
class Tuned:
    """What was chosen, and what it promises.

    Attributes:
        policy: fitted on all samples, ready to decide.
        wish: what was asked.
        kept: whether the chosen policy keeps the wish on the samples it was chosen on.
        chosen: the chosen point, as its curve says (a little optimistic: it was chosen for it).
        samples: number of calibration samples.
        static_accuracy: of the soft vote of all learners.
        accuracy: promised: the choice repeated without the samples that judge it.
        drop: promised points lost, and
        drop_interval: its 95 % interval on that many samples.
        cost: promised mean of the wished cost, and
        cost_interval: its 95 % interval.
        static_cost: of the static ensemble.
        best: by family, the point that family alone would have been chosen with; None where it cannot keep the wish.
        frontier: of all candidates, the points that no other beats in both accuracy and cost.
        notes: what could not be fitted, or is worth knowing.
    """

    policy: Policy
    wish: Wish
    kept: bool
    chosen: Point
    samples: int
    static_accuracy: float
    accuracy: float
    drop: float
    drop_interval: tuple[float, float]
    cost: float
    cost_interval: tuple[float, float]
    static_cost: float
    best: dict[str, Point | None]
    frontier: list[Point]
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Everything but the policy, ready for ``json.dump``."""
        document = {name: value for name, value in self.__dict__.items() if name != "policy"}
        document["wish"] = asdict(self.wish)
        document["chosen"] = self.chosen._asdict()
        document["best"] = {family: point and point._asdict() for family, point in self.best.items()}
        document["frontier"] = [point._asdict() for point in self.frontier]
        return document


def tune(
    votes: Votes, wish: Wish | None = None, policies: Sequence[str] = FAMILIES, progress: Progress | None = None
) -> Tuned:
    """Choose a policy by wish, on calibration votes.

    Args:
        votes: recorded on samples that no learner was trained on.
        wish: half a point of accuracy for lazy cost, unless said otherwise.
        policies: families to choose among, see :data:`quorate.squad.candidates.FAMILIES`.
        progress: called with what is being done, the steps done, and of how many.

    Note:
        Beyond four learners the pool's order is found greedily: one learner after the other, each time the one that
        makes the whole path cheapest.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=400)
        >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2, 2, 400, 3))
        >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        >>> tuned = tune(Votes(probs, labels, np.ones((2, 2))), Wish(max_drop=2), policies=["squad", "cascade"])
        >>> tuned.kept, tuned.cost < tuned.static_cost
        (True, True)
    """
    wish = wish or Wish()
    votes = in_milliseconds(votes, wish.batch) if wish.cost == "milliseconds" else votes
    cost = "lazy" if wish.cost == "milliseconds" else wish.cost
    tried = candidates(votes.macs, [*policies, "static"])  # static comes first: all are measured against it
    curves = crossfit(votes, tried, [cost], progress)
    if "pool" in policies and votes.macs.shape[1] > ALL_ORDERS:
        curves += _greedy_orders(votes, wish, cost, curves, progress)
    static = curves[0]
    usable = [c for c in curves if np.isfinite(c.costs[cost]).all() and (c is not static or "static" in policies)]
    if not usable:
        raise ValueError(f"none of the policies {', '.join(policies)} has a cost {wish.cost!r}: it is one of stages")
    everybody = np.ones(len(votes.labels), bool)
    at, g = choose(usable, static, wish, cost, everybody)
    right, spent = _judged(usable, static, wish, cost)
    chosen = _point(usable[at], static, cost, g)
    fitted = fit(votes)
    candidate = usable[at].candidate
    policy = candidate.make(fitted, candidate.grid[g])
    drop = 100 * (static.right[0].astype(float) - right)
    notes = list(getattr(policy, "notes", ()))
    if wish.max_drop is not None and drop.mean() > wish.max_drop:
        notes.append(
            f"where the choice was judged without its own samples it lost {drop.mean():.2f} points, more than wished: "
            f"{len(right):,} samples are few to choose on"
        )
    return Tuned(
        policy=policy,
        wish=wish,
        kept=wish.keeps(chosen.drop, chosen.cost),
        chosen=chosen,
        samples=len(right),
        static_accuracy=float(static.right[0].mean()),
        accuracy=float(right.mean()),
        drop=float(drop.mean()),
        drop_interval=_interval(drop),
        cost=float(spent.mean()),
        cost_interval=_interval(spent),
        static_cost=float(static.costs[cost].mean()),
        best=_best(usable, static, wish, cost),
        frontier=_frontier(usable, static, cost),
        notes=notes,
    )


def in_milliseconds(votes: Votes, batch: int) -> Votes:
    """The votes with measured milliseconds as their costs, and the voting order that follows from them."""
    if not votes.milliseconds:
        raise ValueError("these votes hold no milliseconds: measure them, or wish in another cost")
    if batch not in votes.milliseconds:
        known = ", ".join(map(str, sorted(votes.milliseconds)))
        raise ValueError(f"milliseconds were measured at batch sizes {known}, not at {batch}")
    return votes._replace(macs=np.asarray(votes.milliseconds[batch], dtype=np.float64))


def choose(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str, rows: Array) -> tuple[int, int]:
    """``(curve, threshold)`` that fit the wish best on some samples, or miss it least where none keeps it."""
    soft = float(static.right[0, rows].mean())
    best: tuple[tuple[float, ...], int, int] | None = None
    for i, curve in enumerate(curves):
        accuracy, spent = curve.right[:, rows].mean(1), curve.costs[cost][:, rows].mean(1, dtype=np.float64)
        for g in range(len(accuracy)):
            drop = 100 * (soft - float(accuracy[g]))
            key = (*_misses(wish, drop, float(spent[g])), i, g)
            if best is None or key < best[0]:
                best = (key, i, g)
    if best is None:
        raise ValueError("there is no candidate to choose from")
    return best[1], best[2]


def _misses(wish: Wish, drop: float, cost: float) -> tuple[float, ...]:
    """What is sorted by: first what keeps the wish; then the cost, or with a budget alone the accuracy."""
    over = 0.0 if wish.budget is None else max(0.0, cost / wish.budget - 1)
    below = 0.0 if wish.max_drop is None else max(0.0, drop - wish.max_drop - 1e-9)
    wanted = (cost, drop) if wish.max_drop is not None else (drop, cost)
    return (over, below, *wanted)


def _judged(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str) -> tuple[Array, Array]:
    """``[N]`` right and cost of each sample, the choice made on the other folds."""
    n = static.right.shape[1]
    fold, right, spent = folds_of(n), np.empty(n), np.empty(n)
    for f in range(FOLDS):
        held = fold == f
        i, g = choose(curves, static, wish, cost, ~held)
        right[held], spent[held] = curves[i].right[g, held], curves[i].costs[cost][g, held]
    return right, spent


def _greedy_orders(
    votes: Votes, wish: Wish, cost: str, curves: Sequence[Curve], progress: Progress | None
) -> list[Curve]:
    """Depth-first pools along the order found by taking, one after the other, the learner that makes it cheapest."""
    num_learners = votes.macs.shape[1]
    left = np.argsort(votes.macs.sum(0), kind="stable").tolist()
    order: list[int] = []
    everybody = np.ones(len(votes.labels), bool)
    found: list[Curve] = []
    while len(order) < num_learners - 1:
        tried = [pool_along(votes.macs, [*order, k, *(j for j in left if j != k)])[0] for k in left]
        found = crossfit(votes, tried, [cost], progress)
        at, _ = choose(found, curves[0], wish, cost, everybody)
        order.append(left.pop(at))
    return crossfit(votes, pool_along(votes.macs, [*order, *left]), [cost], progress)


def _point(curve: Curve, static: Curve, cost: str, g: int) -> Point:
    candidate: Candidate = curve.candidate
    accuracy = float(curve.right[g].mean())
    drop = 100 * (float(static.right[0].mean()) - accuracy)
    spent = float(curve.costs[cost][g].mean(dtype=np.float64))
    return Point(candidate.family, candidate.name, candidate.grid[g], accuracy, drop, spent)


def _best(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str) -> dict[str, Point | None]:
    best: dict[str, Point | None] = {}
    everybody = np.ones(static.right.shape[1], bool)
    for family in dict.fromkeys(curve.candidate.family for curve in curves):
        mine = [curve for curve in curves if curve.candidate.family == family]
        at, g = choose(mine, static, wish, cost, everybody)
        point = _point(mine[at], static, cost, g)
        best[family] = point if wish.keeps(point.drop, point.cost) else None
    return best


def _frontier(curves: Sequence[Curve], static: Curve, cost: str) -> list[Point]:
    """By rising cost, each point more accurate than all cheaper ones."""
    points = [_point(curve, static, cost, g) for curve in curves for g in range(len(curve.candidate.grid))]
    frontier: list[Point] = []
    for point in sorted(points, key=lambda p: (p.cost, -p.accuracy)):
        if not frontier or point.accuracy > frontier[-1].accuracy:
            frontier.append(point)
    return frontier


def _interval(values: Array) -> tuple[float, float]:
    """95 % interval of the mean of paired differences."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("inf")
    mean = float(values.mean())
    return mean - 1.96 * error, mean + 1.96 * error
