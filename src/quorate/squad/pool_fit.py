"""Fitting the pool: per depth vector a weighting of the learners, and a gate that knows when to stop.

Both are convex and small: a handful of Newton steps each. Products are einsums, not BLAS: the matrices are small, and
on a busy machine threads that wait for each other made one fit forty times slower (in scipy's L-BFGS-B too).

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, ``V`` learners that have voted in a state, ``F``
features. This file decides nothing.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from quorate.squad.arrays import host, wide
from quorate.squad.checks import check_present, check_probs, check_shape, tolerance
from quorate.squad.pool import FEATURES, Pool, features, softmax
from quorate.squad.protocol import Array

__all__ = ["Fitter", "few_states", "fit_pool", "states_near"]

Depths: TypeAlias = tuple[int, ...]
Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Progress: TypeAlias = Callable[[int, int], None]

ALL_STATES = 1024
FEWEST_REPAIRS = 6
STEPS, TOLERANCE = 100, 1e-12


def fit_pool(
    probs: Array,
    labels: Array,
    present: Array | None,
    paths: Sequence[Sequence[tuple[int, int]]] | None,
    floor: float,
    ridge: float,
    progress: Progress | None,
) -> Pool:
    """:meth:`Pool.fit`."""
    fitter = Fitter(probs, labels, present, floor, ridge)
    if paths is None:
        return fitter.whole(progress)
    return fitter.pool(states_near(paths, fitter.num_exits, fitter.num_learners), progress)


def few_states(num_exits: int, num_learners: int) -> bool:
    """Whether every depth vector can be fitted: at most 1,024 of them."""
    return int((num_exits + 1) ** num_learners) - 1 <= ALL_STATES


def states_near(paths: Sequence[Sequence[tuple[int, int]]], num_exits: int, num_learners: int) -> set[Depths]:
    """The depth vectors along the paths, and the same with one learner absent.

    Example:
        >>> sorted(states_near([[(0, 0), (0, 1)]], 1, 2))
        [(-1, 0), (0, -1), (0, 0)]
    """
    states: set[Depths] = set()
    for path in paths:
        depth = [-1] * num_learners
        for e, k in path:
            if not (0 <= e < num_exits and 0 <= k < num_learners):
                raise ValueError(f"paths must name (exit, learner) below ({num_exits}, {num_learners}), got ({e}, {k})")
            depth[k] = max(depth[k], e)
            states.add(tuple(depth))
            states |= {(*depth[:j], -1, *depth[j + 1 :]) for j in range(num_learners)}
    return {d for d in states if max(d) >= 0}


class Fitter:
    """Fits states one by one and remembers them, so that searching for a path fits nothing twice."""

    def __init__(
        self, probs: Array, labels: Array, present: Array | None = None, floor: float = 1e-3, ridge: float = 1e-3
    ) -> None:
        """Check the calibration votes; see :meth:`Pool.fit`."""
        self.num_exits, self.num_learners, n, classes = check_shape(probs)
        if n == 0:
            raise ValueError("a pool needs calibration samples, got none")
        if not 0 < floor < 1:
            raise ValueError(f"floor must lie in (0, 1), got {floor}")
        if ridge < 0:
            raise ValueError(f"ridge must not be negative, got {ridge}")
        self.labels = np.asarray(host(labels))
        if self.labels.shape != (n,) or self.labels.dtype.kind not in "iu":
            raise ValueError(f"labels must be {n} integers, one per sample, got shape {list(self.labels.shape)}")
        if not 0 <= self.labels.min() <= self.labels.max() < classes:
            raise ValueError(f"labels must lie in 0 to {classes - 1}")
        mask = None if present is None else check_present(host(present), (self.num_exits, self.num_learners, n))
        values = wide(host(probs))
        check_probs(values, mask, tolerance(str(probs.dtype)))
        self.present = np.ones(values.shape[:3], bool) if mask is None else np.asarray(mask)
        values = np.where(self.present[..., None], values, 1.0)
        self.votes = values.argmax(-1)
        self.logs = np.log(np.maximum(values, floor))  # [E, K, N, C]
        self.floor, self.ridge = floor, ridge
        self.fitted: dict[Depths, tuple[Floats, Floats, str | None]] = {}
        self._whole: Pool | None = None
        self._near: dict[tuple[tuple[int, int], ...], Pool] = {}
        self._everybody = (self.num_exits - 1,) * self.num_learners

    def whole(self, progress: Progress | None = None) -> Pool:
        """The pool that knows every state; fitted once."""
        if self._whole is None:
            if not few_states(self.num_exits, self.num_learners):
                raise ValueError(
                    f"{self.num_learners} learners with {self.num_exits} exits have "
                    f"{(self.num_exits + 1) ** self.num_learners - 1:,} states, more than {ALL_STATES:,}: "
                    "give the `paths` that will be used"
                )
            every = product(range(-1, self.num_exits), repeat=self.num_learners)
            self._whole = self.pool((d for d in every if max(d) >= 0), progress)
        return self._whole

    def near(self, path: tuple[tuple[int, int], ...]) -> Pool:
        """The pool that knows the states near one path; put together once."""
        if path not in self._near:
            self._near[path] = self.pool(states_near([path], self.num_exits, self.num_learners))
        return self._near[path]

    def pool(self, states: Iterable[Depths], progress: Progress | None = None) -> Pool:
        """The pool that knows ``states``; a state without a single sample is left out."""
        states = sorted(states, key=lambda d: d[::-1])  # by code, learner 0 counting least
        known = []
        for i, depth in enumerate(states):
            if self._rows(depth).any():
                known.append((depth, *self.state(depth)))
            if progress is not None:
                progress(i + 1, len(states))
        if not known:
            raise ValueError("a pool needs at least one sample with a vote, got none")
        return Pool(
            self.num_exits,
            np.array([depth for depth, *_ in known], dtype=np.int64),
            np.stack([weights for _, weights, _, _ in known]),
            np.stack([gate for _, _, gate, _ in known]),
            self.floor,
            notes=self._notes(len(states) - len(known), [note for *_, note in known if note]),
        )

    def _notes(self, without: int, notes: list[str]) -> tuple[str, ...]:
        said = []
        missing = sorted(set(range(self.logs.shape[-1])) - set(self.labels.tolist()))
        if missing:
            shown = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
            said.append(f"{len(missing)} classes have no calibration sample ({shown})")
        if without:
            said.append(f"{without} states have no sample in which all their branches voted: uniform mean, no stop")
        if notes:
            said.append(f"{len(notes)} states saw fewer than {FEWEST_REPAIRS} repairs: their gate is a constant rate")
        return tuple(said)

    def state(self, depth: Depths) -> tuple[Floats, Floats, str | None]:
        """``(weights [K], gate [3 * F + 1], what was missing or None)`` of one depth vector."""
        if depth not in self.fitted:
            weights = self._weights(depth)
            self.fitted[depth] = (weights, *self._gate(depth, weights))
        return self.fitted[depth]

    def _rows(self, depth: Depths) -> Any:
        """``[N]``: samples in which all branches of the state voted."""
        return np.all([self.present[e, k] for k, e in enumerate(depth) if e >= 0], axis=0)

    def _logs(self, depth: Depths, rows: Array) -> Floats:
        """``[V, n, C]`` of those who have voted."""
        return np.stack([self.logs[e, k][rows] for k, e in enumerate(depth) if e >= 0]).astype(np.float64)

    def _weights(self, depth: Depths) -> Floats:
        """Minimise the mean cross-entropy plus ``ridge * |w - 1/V|^2``, from the uniform mean."""
        rows = np.flatnonzero(self._rows(depth))
        logs, labels = self._logs(depth, rows), self.labels[rows]
        num_voters, n, _ = logs.shape
        of_label = logs[:, np.arange(n), labels].mean(1)

        def loss(w: Floats) -> tuple[float, Floats, Floats]:
            z = np.einsum("v,vnc->nc", w, logs)
            z -= z.max(1, keepdims=True)
            p = np.exp(z)
            total = p.sum(1, keepdims=True)
            p /= total
            off = w - 1 / num_voters
            # cross-entropy = log-sum-exp - z of the label; both are taken after the row maximum was subtracted
            value = float((np.log(total[:, 0]) - z[np.arange(n), labels]).mean() + self.ridge * (off * off).sum())
            weighted = p * logs
            mean = weighted.sum(-1)
            slope = mean.mean(1) - of_label + 2 * self.ridge * off
            curvature = np.einsum("vnc,unc->vu", weighted, logs) - np.einsum("vn,un->vu", mean, mean)
            return value, slope, curvature / n + 2 * self.ridge * np.eye(num_voters)

        weights = np.zeros(self.num_learners)
        weights[[k for k, e in enumerate(depth) if e >= 0]] = newton(loss, np.full(num_voters, 1 / num_voters))
        return weights

    def _answers(self, depth: Depths, weights: Floats, rows: Array) -> tuple[Floats, Floats]:
        """The pool's distributions ``[n, C]``, and the gate's features ``[F, n]``."""
        voters = [k for k, e in enumerate(depth) if e >= 0]
        probs = softmax(np.einsum("v,vnc->nc", weights[voters], self._logs(depth, rows)))
        own = np.stack([self.votes[depth[k], k][rows] for k in voters])
        return probs, features(probs, (own == probs.argmax(-1)).mean(0))

    def _gate(self, depth: Depths, weights: Floats) -> tuple[Floats, str | None]:
        """A logistic model of the chance of repair; a constant rate where repairs are too few."""
        rows = np.flatnonzero(self._rows(depth) & self._rows(self._everybody))
        num = len(FEATURES)
        gate = np.zeros(3 * num + 1)
        gate[num : 2 * num] = 1
        repaired = np.zeros(0, bool)
        if len(rows) and depth != self._everybody:
            probs, feature = self._answers(depth, weights, rows)
            full, _ = self._answers(self._everybody, self.state(self._everybody)[0], rows)
            labels = self.labels[rows]
            repaired = (full.argmax(-1) == labels) & (probs.argmax(-1) != labels)
        repairs = int(repaired.sum())
        if repairs < FEWEST_REPAIRS:
            rate = (repairs + 0.5) / (len(rows) + 1)
            gate[-1] = np.log(rate / (1 - rate))
            return gate, None if depth == self._everybody else "constant"
        mean, scale = feature.mean(1), feature.std(1)
        flat = scale < 1e-12
        standard = (feature - mean[:, None]) / np.where(flat, 1, scale)[:, None]
        standard[flat] = 0
        coefficients = logistic(standard, repaired, self.ridge)
        gate[:num], gate[num : 2 * num], gate[2 * num :] = mean, np.where(flat, 1, scale), coefficients
        gate[2 * num : 3 * num][flat] = 0
        return gate, None


def logistic(x: Floats, y: np.ndarray[Any, np.dtype[np.bool_]], ridge: float) -> Floats:
    """``[F + 1]`` coefficients and intercept: mean logistic loss plus ``ridge * |coefficients|^2``.

    Example:
        >>> coefficients = logistic(np.array([[-1.0, -1.0, 1.0, 1.0]]), np.array([False, True, True, True]), 0.01)
        >>> bool(coefficients[0] > 0)
        True
    """
    x1 = np.vstack([x, np.ones(x.shape[1])])
    n = x.shape[1]
    shrunk = np.append(np.full(len(x), ridge), 0.0)

    def loss(b: Floats) -> tuple[float, Floats, Floats]:
        z = np.einsum("f,fn->n", b, x1)
        p = 1 / (1 + np.exp(-z))
        value = float((np.logaddexp(0, z) - y * z).mean() + (shrunk * b * b).sum())
        slope = np.einsum("fn,n->f", x1, p - y) / n + 2 * shrunk * b
        return value, slope, np.einsum("fn,gn->fg", x1 * (p * (1 - p)), x1) / n + 2 * np.diag(shrunk)

    rate = (y.sum() + 0.5) / (n + 1)
    return newton(loss, np.append(np.zeros(len(x)), np.log(rate / (1 - rate))))


def newton(loss: Callable[[Floats], tuple[float, Floats, Floats]], x: Floats) -> Floats:
    """The minimum of a convex function of few variables, by Newton's method with halved steps.

    Args:
        loss: its value, gradient and Hessian.
        x: where to start.

    Example:
        >>> newton(lambda x: (float((x - 2) @ (x - 2)), 2 * (x - 2), 2 * np.eye(1)), np.zeros(1)).round(6)
        array([2.])
    """
    value, slope, curvature = loss(x)
    for _ in range(STEPS):
        jitter = 1e-12 * (1 + np.trace(curvature)) * np.eye(len(x))
        step = np.linalg.solve(curvature + jitter, slope)
        promised = float((slope * step).sum())
        if promised < TOLERANCE:
            break
        length = 1.0
        while length > 1e-8:
            ahead = loss(x - length * step)
            if ahead[0] <= value - 1e-4 * length * promised:
                break
            length /= 2
        else:
            break
        x = x - length * step
        value, slope, curvature = ahead
    return x
