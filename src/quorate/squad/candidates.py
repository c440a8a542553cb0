"""Everything a committee could be run with: each policy with its variants, and a grid of thresholds for each.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``G`` thresholds. This file does not know what the user wishes.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import permutations
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from quorate.squad.cost import COSTS
from quorate.squad.path import PathPolicy, breadth_first, by_cumulative_cost, depth_first
from quorate.squad.policies import Agreement, Cascade, Confidence, Soft, Static
from quorate.squad.pool import Pool
from quorate.squad.pool_fit import Fitter, few_states
from quorate.squad.protocol import Policy
from quorate.squad.rule import Rule
from quorate.squad.temperature import Scaled, fit_temperatures
from quorate.squad.tracing import Trace, trace
from quorate.squad.votes import Votes

__all__ = [
    "FAMILIES",
    "Candidate",
    "Curve",
    "Fitted",
    "candidates",
    "crossfit",
    "curve_of",
    "fit",
    "level_of",
    "traced",
]

Array: TypeAlias = np.ndarray[Any, Any]
Progress: TypeAlias = Callable[[str, int, int], None]

FAMILIES = ("static", "squad", "confidence", "cascade", "soft", "agreement", "pool")
"""The names by which policies are chosen."""

FOLDS = 5
ALL_ORDERS = 4  # learners up to which every order is tried
SURE = tuple(float(x) for x in 1 - np.geomspace(1, 1e-4, 105))  # thresholds on a probability or its bound
CHANCE = tuple(float(x) for x in np.geomspace(0.5, 1e-4, 105))  # thresholds on the chance of repair


class Fitted(NamedTuple):
    """What is fitted on a calibration split, once for all candidates."""

    temperatures: Array
    fitter: Fitter


class Candidate(NamedTuple):
    """A policy but for its threshold.

    Attributes:
        family: one of :data:`FAMILIES`.
        group: what it is a variant of, as tables name it.
        name: as tables name it, without its threshold.
        grid: the thresholds to try.
        make: the policy, given what was fitted and a threshold.
        path: the path of a pool, ``[(exit, learner), ...]``; None for arrival and for others.
    """

    family: str
    group: str
    name: str
    grid: tuple[float, ...]
    make: Callable[[Fitted, float], Policy]
    path: tuple[tuple[int, int], ...] | None = None


class Curve(NamedTuple):
    """A candidate judged at every threshold of its grid, sample by sample.

    Attributes:
        candidate: whose.
        right: ``[G, N]`` whether the answer is right.
        costs: ``[G, N]`` by the name of the cost, only those asked for.
    """

    candidate: Candidate
    right: Array
    costs: dict[str, Array]


def candidates(macs: Array, families: Sequence[str] = FAMILIES) -> list[Candidate]:
    """Every policy of the named families for a committee with this cost table.

    Pools come along every order of the learners up to four of them, and by cost beyond that.

    Example:
        >>> [c.name for c in candidates(np.ones((2, 2)), ("squad", "pool"))][:3]
        ['SQUAD, mean', 'SQUAD, t-test', 'pool, gate, depth-first 0 1']
    """
    unknown = sorted(set(families) - set(FAMILIES))
    if unknown:
        raise ValueError(f"policies must be among {', '.join(FAMILIES)}, got {', '.join(map(repr, unknown))}")
    makers = {
        "static": _static, "squad": _squad, "confidence": _confidence, "cascade": _cascade, "soft": _soft,
        "agreement": _agreement, "pool": _pools,
    }  # fmt: skip
    return [candidate for family in FAMILIES if family in families for candidate in makers[family](macs)]


def scaled(fitted: Fitted, policy: Policy) -> Policy:
    """The policy at the fitted temperatures, or as it is where none helped."""
    return policy if (fitted.temperatures == 1).all() else Scaled(policy, fitted.temperatures.tolist())


def _static(_: Array) -> list[Candidate]:
    return [Candidate("static", "static soft vote", "static soft vote", (0.0,), lambda f, _: scaled(f, Static()))]


def _squad(macs: Array) -> list[Candidate]:
    rules = [Candidate("squad", "SQUAD, mean", "SQUAD, mean", SURE, lambda f, t: scaled(f, Rule("mean", t)))]
    if macs.shape[1] > 1:
        rules.append(
            Candidate("squad", "SQUAD, t-test", "SQUAD, t-test", SURE, lambda f, t: scaled(f, Rule("t-test", t)))
        )
    return rules


def _confidence(macs: Array) -> list[Candidate]:
    def alone(k: int) -> Candidate:
        name = f"learner {k}, confidence"
        return Candidate("confidence", "one learner, confidence", name, SURE, lambda f, t: scaled(f, Confidence(k, t)))

    return [alone(k) for k in range(macs.shape[1])]


def _cascade(_: Array) -> list[Candidate]:
    name = "cascade of whole learners"
    return [Candidate("cascade", name, name, SURE, lambda f, t: scaled(f, Cascade(t)))]


def _soft(_: Array) -> list[Candidate]:
    def along(walk: Literal["depth", "breadth", "arrival"], said: str) -> Candidate:
        name = f"soft vote so far, {said}"
        return Candidate("soft", name, name, SURE, lambda f, t: scaled(f, Soft(walk, t)))

    return [along("depth", "depth-first"), along("breadth", "breadth-first"), along("arrival", "order of arrival")]


def _agreement(macs: Array) -> list[Candidate]:
    num_learners = macs.shape[1]
    shares = tuple((j + 1) / num_learners for j in range(num_learners))
    return [Candidate("agreement", "agreement", "agreement", shares, lambda f, t: scaled(f, Agreement(t)))]


def _pools(macs: Array) -> list[Candidate]:
    num_learners = macs.shape[1]
    by_cost = tuple(np.argsort(macs.sum(0), kind="stable").tolist())
    orders: Iterable[tuple[int, ...]] = permutations(range(num_learners)) if num_learners <= ALL_ORDERS else [by_cost]
    return [pool for order in orders for pool in pool_along(macs, order)] + [
        *_pool("breadth-first", "breadth-first", _as_pairs(breadth_first(macs), num_learners)),
        *_pool("order of arrival", "order of arrival", _as_pairs(by_cumulative_cost(macs), num_learners), arrival=True),
    ]


def pool_along(macs: Array, order: Sequence[int]) -> list[Candidate]:
    """Both tests of the pool, depth-first through the learners in this order."""
    path = _as_pairs(depth_first(macs, order), macs.shape[1])
    return _pool("depth-first", "depth-first " + " ".join(map(str, order)), path)


def _pool(group: str, walk: str, along: tuple[tuple[int, int], ...], arrival: bool = False) -> list[Candidate]:
    path = None if arrival else along

    def by(stop: Literal["gate", "confidence"], grid: tuple[float, ...]) -> Candidate:
        def make(fitted: Fitted, threshold: float) -> Policy:
            return the_pool(fitted.fitter, along).with_(stop=stop, threshold=threshold, path=path)

        return Candidate("pool", f"pool, {stop}, {group}", f"pool, {stop}, {walk}", grid, make, path)

    return [by("gate", CHANCE), by("confidence", SURE)]


def _as_pairs(path: Sequence[int], num_learners: int) -> tuple[tuple[int, int], ...]:
    return tuple(divmod(branch, num_learners) for branch in path)


def the_pool(fitter: Fitter, along: tuple[tuple[int, int], ...]) -> Pool:
    """The fitted pool: all states where they are few enough, otherwise those near the path."""
    if few_states(fitter.num_exits, fitter.num_learners):
        return fitter.whole()
    return fitter.near(along)


def fit(votes: Votes, families: Sequence[str] = FAMILIES, progress: Progress | None = None, what: str = "") -> Fitted:
    """Temperatures and the fitter of pools, from calibration votes; all states at once where they are few."""
    fitter = Fitter(votes.probs, votes.labels, votes.present)
    if "pool" in families and few_states(fitter.num_exits, fitter.num_learners):
        fitter.whole(None if progress is None else partial(progress, f"fitting the pool{what}"))
    return Fitted(fit_temperatures(votes.probs, votes.labels, votes.present), fitter)


def level_of(policy: Policy, threshold: float) -> float:
    """What a trace is stopped at."""
    if isinstance(policy, Scaled):
        return level_of(policy.policy, threshold)
    return policy.level if isinstance(policy, PathPolicy) else threshold


def traced(candidate: Candidate, fitted: Fitted, votes: Votes) -> Trace:
    """Every point at which the candidate may stop, on these votes.

    A static ensemble waits for everybody, so it is not judged on what had arrived when somebody else stopped.
    """
    policy = candidate.make(fitted, candidate.grid[0])
    votes = votes._replace(arrival=None) if candidate.family == "static" else votes
    return trace(
        votes.probs, votes.macs, policy, order=votes.order, arrival=votes.arrival, present=votes.present,
        chained=votes.chained,
    )  # fmt: skip


def curve_of(candidate: Candidate, fitted: Fitted, points: Trace, labels: Array, names: Sequence[str]) -> Curve:
    """Judge a trace at every threshold of the grid; a static ensemble's F_M and F_MT are its free-running costs."""
    fields = {name: COSTS[name] for name in names}
    if candidate.family == "static":
        fields |= {n: f for n, f in {"f-m": "free_running_macs", "f-mt": "free_running_energy"}.items() if n in fields}
    right_T = points.label == labels
    spent_T = {name: getattr(points.costs, field) for name, field in fields.items()}
    right = np.empty((len(candidate.grid), len(labels)), bool)
    costs = {name: np.empty(right.shape) for name in names}
    for g, threshold in enumerate(candidate.grid):
        at = points.first(level_of(candidate.make(fitted, threshold), threshold))[0][None]
        right[g] = np.take_along_axis(right_T, at, axis=0)
        for name in names:
            costs[name][g] = np.take_along_axis(spent_T[name], at, axis=0)
    return Curve(candidate, right, costs)


def folds_of(n: int, seed: int = 0) -> Array:
    """``[N]``: the fold of each sample."""
    return np.random.default_rng(seed).permutation(n) % FOLDS


def fits_of_folds(votes: Votes, families: Sequence[str] = FAMILIES, progress: Progress | None = None) -> list[Fitted]:
    """For each fold what is fitted on the other four."""
    n = len(votes.labels)
    if n < 2 * FOLDS:
        raise ValueError(f"cross-fitting needs at least {2 * FOLDS} samples, got {n}: hold out more for calibration")
    fold = folds_of(n)
    return [
        fit(votes.rows(np.flatnonzero(fold != f)), families, progress, f", fold {f + 1} of {FOLDS}")
        for f in range(FOLDS)
    ]


def crossfit(
    votes: Votes,
    chosen: Sequence[Candidate],
    names: Sequence[str],
    progress: Progress | None = None,
    fits: Sequence[Fitted] | None = None,
) -> list[Curve]:
    """Curves in which every sample is judged by what was fitted on the other four fifths.

    Args:
        votes: the samples.
        chosen: candidates to judge.
        names: the costs to count.
        progress: called with what is being done, the steps done, and of how many.
        fits: what :func:`fits_of_folds` gave, where it is there already.
    """
    fits = fits or fits_of_folds(votes, [c.family for c in chosen], progress)
    n = len(votes.labels)
    fold = folds_of(n)
    curves = [
        Curve(c, np.empty((len(c.grid), n), bool), {name: np.empty((len(c.grid), n)) for name in names}) for c in chosen
    ]
    done, total = 0, FOLDS * len(chosen)
    for f, fitted in enumerate(fits):
        held = np.flatnonzero(fold == f)
        part = votes.rows(held)
        for candidate, curve in zip(chosen, curves, strict=True):
            of_fold = curve_of(candidate, fitted, traced(candidate, fitted, part), part.labels, names)
            curve.right[:, held] = of_fold.right
            for name in names:
                curve.costs[name][:, held] = of_fold.costs[name]
            done += 1
            if progress is not None:
                progress(f"judging policies, fold {f + 1} of {FOLDS}", done, total)
    return curves
