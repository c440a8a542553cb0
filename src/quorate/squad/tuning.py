"""Tuning by wish: the cheapest policy that keeps what the user asks for, and how sure that promise is.

Weights and temperatures are judged on samples they were not fitted on (five-fold cross-fitting), and for the promise
the choice of policy, path and threshold is repeated without the fold that judges it. Its interval is that of bootstrap
samples in which the choice is made again and judged on those left out.

Shapes: ``N`` samples, ``R`` resamples. This file does not know how any policy decides.
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
    Fitted,
    Progress,
    candidates,
    crossfit,
    fit,
    fits_of_folds,
    folds_of,
    pool_along,
)
from quorate.squad.cost import COSTS
from quorate.squad.priced import Priced
from quorate.squad.protocol import Policy
from quorate.squad.votes import Votes

__all__ = ["Point", "Tuned", "Wish", "choose", "in_milliseconds", "tune"]

Array: TypeAlias = np.ndarray[Any, Any]
STAGELESS = ("confidence", "cascade", "soft", "agreement", "pool")
RESAMPLES = 200
SLACK = 1e-9

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
        if self.budget is not None and not 0 < self.budget < float("inf"):
            raise ValueError(f"budget must be positive and finite, got {self.budget:g}")
        if self.cost not in (*COSTS, "milliseconds"):
            raise ValueError(f"cost must be one of {', '.join((*COSTS, 'milliseconds'))}, got {self.cost!r}")

    def keeps(self, drop: float, cost: float) -> bool:
        """Whether a policy that loses ``drop`` points at this mean cost is what was wished for."""
        within = self.max_drop is None or drop <= self.max_drop + SLACK
        return within and (self.budget is None or cost <= self.budget * (1 + SLACK))


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
        kept: whether the chosen policy keeps the wish on the samples it was chosen on, and
        promised: whether what is promised keeps it too.
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
    promised: bool
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
    votes: Votes,
    wish: Wish | None = None,
    policies: Sequence[str] = FAMILIES,
    progress: Progress | None = None,
    *,
    threshold: float | None = None,
) -> Tuned:
    """Choose a policy by wish, on calibration votes.

    Args:
        votes: recorded on samples that no learner was trained on.
        wish: half a point of accuracy for lazy cost, unless said otherwise.
        policies: families to choose among, see :data:`quorate.squad.candidates.FAMILIES`.
        progress: called with what is being done, the steps done, and of how many.
        threshold: the only one to try; None: each policy's own grid of them.

    Note:
        The promise leaves out the fold that judges it when it chooses; what was fitted for the other folds has seen
        that fold, so a little optimism stays.
        Beyond
        four learners the pool's order is found greedily: one learner after the other, each time the one that
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
    timed = wish.cost == "milliseconds"
    votes = in_milliseconds(votes, wish.batch) if timed else votes
    cost = "lazy" if timed else wish.cost
    if cost in ("f-m", "f-mt") and not (policies := [p for p in policies if p not in STAGELESS]):
        raise ValueError(f"no policy but squad and static has a cost {wish.cost!r}: it is one of stages")
    families = [*policies, "static"]
    fits = fits_of_folds(votes, families, progress)
    tried = candidates(votes.macs, families)
    if threshold is not None:
        tried = [one._replace(grid=(threshold,)) if one.family != "static" else one for one in tried]
    curves = crossfit(votes, tried, [cost], progress, fits)
    if "pool" in policies and votes.macs.shape[1] > ALL_ORDERS and threshold is None:
        curves += _greedy_orders(votes, wish, cost, curves, fits, progress)
    static = curves[0]  # all are measured against it
    usable = [c for c in curves if c is not static or "static" in policies]
    at, g = choose(usable, static, wish, cost)
    candidate = usable[at].candidate
    policy = candidate.make(fit(votes, [candidate.family]), candidate.grid[g])
    notes = list(getattr(policy, "notes", ()))
    if timed:
        policy = Priced(policy, votes.macs.tolist())
    return _tuned(policy, usable, static, wish, cost, (at, g), notes)


def _tuned(
    policy: Policy,
    curves: Sequence[Curve],
    static: Curve,
    wish: Wish,
    cost: str,
    choice: tuple[int, int],
    notes: list[str],
) -> Tuned:
    right, spent = _judged(curves, static, wish, cost)
    chosen = _point(curves[choice[0]], static, cost, choice[1])
    drop = float(100 * (static.right[0].mean() - right.mean()))
    drop_interval, cost_interval = _intervals(curves, static, wish, cost, drop, float(spent.mean()))
    promised = wish.keeps(drop, float(spent.mean()))
    if not promised:
        notes.append(
            f"judged without the samples it was chosen on, the choice does not keep the wish (a drop of {drop:.2f} "
            f"points): {len(right):,} samples are few to choose on, or the wish is at the edge"
        )
    return Tuned(
        policy=policy,
        wish=wish,
        kept=wish.keeps(chosen.drop, chosen.cost),
        promised=promised,
        chosen=chosen,
        samples=len(right),
        static_accuracy=float(static.right[0].mean()),
        accuracy=float(right.mean()),
        drop=drop,
        drop_interval=drop_interval,
        cost=float(spent.mean()),
        cost_interval=cost_interval,
        static_cost=float(static.costs[cost].mean()),
        best=_best(curves, static, wish, cost),
        frontier=_frontier(curves, static, cost),
        notes=notes,
    )


def in_milliseconds(votes: Votes, batch: int) -> Votes:
    """The votes with measured milliseconds as their costs, and the voting order that follows from them."""
    if not votes.milliseconds:
        raise ValueError("these votes hold no milliseconds: measure them, or wish in another cost")
    if batch not in votes.milliseconds:
        known = ", ".join(map(str, sorted(votes.milliseconds)))
        raise ValueError(f"milliseconds were measured at batch sizes {known}, not at {batch}")
    return votes._replace(macs=np.asarray(votes.milliseconds[batch], dtype=np.float64), order=None)


def choose(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str, rows: Array | None = None) -> tuple[int, int]:
    """``(curve, threshold)`` that fit the wish best on some samples, or miss it least where none keeps it.

    Args:
        curves: candidates.
        static: what drops are measured against.
        wish: what is wished for.
        cost: the cost that counts.
        rows: ``[N]`` which samples; all unless given.
    """
    n = static.right.shape[1]
    weight = np.ones((n, 1)) if rows is None else np.asarray(rows, dtype=np.float64)[:, None]
    return _choices(curves, static, wish, cost, weight)[0]


def _choices(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str, weight: Array) -> list[tuple[int, int]]:
    """The choice on each of ``R`` weightings ``[N, R]`` of the samples."""
    if not curves:
        raise ValueError("there is no candidate to choose from")
    total = weight.sum(0)
    soft = np.einsum("n,nr->r", static.right[0].astype(float), weight) / total
    accuracy = np.concatenate([np.einsum("gn,nr->gr", c.right.astype(float), weight) for c in curves]) / total
    spent = np.concatenate([np.einsum("gn,nr->gr", c.costs[cost], weight) for c in curves]) / total
    where = [(i, g) for i, c in enumerate(curves) for g in range(len(c.right))]
    drop = 100 * (soft - accuracy)
    over = np.zeros_like(spent) if wish.budget is None else np.maximum(0, spent / wish.budget - 1 - SLACK)
    below = np.zeros_like(drop) if wish.max_drop is None else np.maximum(0, drop - wish.max_drop - SLACK)
    # first what keeps the wish, then the cost (with a budget alone the accuracy), then the other of the two
    then = (spent, drop) if wish.max_drop is not None else (drop, spent)
    return [where[np.lexsort([x[:, r] for x in (*then[::-1], below, over)])[0]] for r in range(weight.shape[1])]


def _judged(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str) -> tuple[Array, Array]:
    """``[N]`` right and cost of each sample, the choice made on the other folds."""
    n = static.right.shape[1]
    fold, right, spent = folds_of(n), np.empty(n), np.empty(n)
    choices = _choices(curves, static, wish, cost, np.stack([fold != f for f in range(FOLDS)], axis=1).astype(float))
    for f, (i, g) in enumerate(choices):
        held = fold == f
        right[held], spent[held] = curves[i].right[g, held], curves[i].costs[cost][g, held]
    return right, spent


def _intervals(
    curves: Sequence[Curve], static: Curve, wish: Wish, cost: str, drop: float, spent: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """95 % intervals of the promised drop and cost: choose on bootstrap samples, judge on those left out."""
    n = static.right.shape[1]
    rng = np.random.default_rng(0)
    weight = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES).T.astype(float)
    drops, costs = [], []
    for r, (i, g) in enumerate(_choices(curves, static, wish, cost, weight)):
        out = weight[:, r] == 0
        drops.append(100 * (static.right[0, out].mean() - curves[i].right[g, out].mean()))
        costs.append(curves[i].costs[cost][g, out].mean())
    least = 300 / n  # three in n: what n samples without a single difference leave open
    low, high = np.percentile(drops, [2.5, 97.5])
    cheap, dear = np.percentile(costs, [2.5, 97.5])
    return (
        (min(float(low), drop - least), max(float(high), drop + least)),
        (min(float(cheap), spent), max(float(dear), spent)),
    )


def _greedy_orders(
    votes: Votes, wish: Wish, cost: str, curves: Sequence[Curve], fits: Sequence[Fitted], progress: Progress | None
) -> list[Curve]:
    """Depth-first pools along the order found by taking, one after the other, the learner that makes it cheapest."""
    left = np.argsort(votes.macs.sum(0), kind="stable").tolist()
    order: list[int] = []
    while len(left) > 1:
        tried = [pool_along(votes.macs, [*order, k, *(j for j in left if j != k)])[0] for k in left]
        at, _ = choose(crossfit(votes, tried, [cost], progress, fits), curves[0], wish, cost)
        order.append(left.pop(at))
    return crossfit(votes, pool_along(votes.macs, [*order, *left]), [cost], progress, fits)


def _point(curve: Curve, static: Curve, cost: str, g: int) -> Point:
    candidate: Candidate = curve.candidate
    accuracy = float(curve.right[g].mean())
    drop = 100 * (float(static.right[0].mean()) - accuracy)
    spent = float(curve.costs[cost][g].mean(dtype=np.float64))
    return Point(candidate.family, candidate.name, candidate.grid[g], accuracy, drop, spent)


def _best(curves: Sequence[Curve], static: Curve, wish: Wish, cost: str) -> dict[str, Point | None]:
    best: dict[str, Point | None] = {}
    for family in dict.fromkeys(curve.candidate.family for curve in curves):
        mine = [curve for curve in curves if curve.candidate.family == family]
        at, g = choose(mine, static, wish, cost)
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
