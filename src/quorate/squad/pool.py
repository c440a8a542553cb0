"""The pool, our own policy: weigh every learner's deepest distribution by who says it and from how deep.

SQUAD counts votes and then tests two or three confidences. The pool keeps the whole distributions; a small model
fitted on a calibration split says, in every state, how likely it is that going on would still repair the answer.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes, ``S`` fitted states (depth vectors), ``F`` features.
This file decides with numpy alone; how the numbers are fitted stands in ``pool_fit``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import Any, Literal, Self

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.path import PathPolicy, Seen, by_cumulative_cost
from quorate.squad.protocol import Array, Lattice

__all__ = ["Pool", "features"]

FEATURES = ("largest", "margin", "entropy", "logit", "share")
"""The five features of the gate; see :func:`features`."""


def features(probs: Array, agree: Array) -> Array:
    """``[F, n]``: what the gate knows of a state.

    Args:
        probs: ``[n, C]`` the pool's distribution.
        agree: ``[n]`` share of the voting learners whose own class is the pool's.

    Returns:
        The largest probability, its margin over the second, the entropy, the logit of the largest (clipped at 1e-6),
        and ``agree``.

    Example:
        >>> features(np.array([[0.8, 0.1, 0.1]]), np.array([1.0]))[:, 0].round(3)
        array([0.8  , 0.7  , 0.639, 1.386, 1.   ])
    """
    xp = namespace(probs)
    top = xp.max(probs, axis=-1)
    first = xp.argmax(probs, axis=-1)[:, None] == xp.arange(probs.shape[-1], device=probs.device)
    second = xp.max(xp.where(first, 0.0, probs), axis=-1)
    entropy = -xp.sum(probs * xp.log(xp.maximum(probs, probs * 0 + 1e-300)), axis=-1)
    clipped = xp.clip(top, 1e-6, 1 - 1e-6)
    return xp.stack([top, top - second, entropy, xp.log(clipped) - xp.log(1 - clipped), agree])


@dataclass(frozen=True, eq=False)
class Pool(PathPolicy):
    """The answer is ``softmax(sum over k of w_d[k] * log max(p[d_k, k], floor))``, with ``d`` the depth vector.

    ``d_k`` is the deepest exit at which learner ``k`` has voted; only learners that have voted count. The weights
    depend on ``d`` alone, not on the order in which it came about, so any order of arrival and any missing learner is
    a state that can be fitted. Build one with :meth:`fit`, change its test or path with :meth:`with_`.

    Attributes:
        num_exits: ``E`` of the committee it was fitted on.
        depths: ``[S, K]`` the fitted states, -1 for a learner that has not voted.
        weights: ``[S, K]``.
        gates: ``[S, 3 * F + 1]`` per state the features' means, their scales, the coefficients, and the intercept of
            the logistic model of the chance of repair.
        floor: probabilities below it count as it, so that one learner cannot veto the others.
        stop: ``"gate"``: when the chance of repair is below the threshold. ``"confidence"``: when the pool's largest
            probability is above it.
        threshold: in [0, 1).
        path_: branches in the order asked, ``e * K + k``; None: votes count in order of arrival.
        notes: what could not be fitted, in words.

    Note:
        In a state that was never fitted the pool is the uniform mean and does not stop. A vote that comes too late to
        be its learner's deepest changes nothing.
    """

    num_exits: int
    depths: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]
    gates: np.ndarray[Any, Any]
    floor: float = 1e-3
    stop: Literal["gate", "confidence"] = "gate"
    threshold: float = 0.02
    path_: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    _codes: np.ndarray[Any, Any] = field(init=False, repr=False)
    _rows: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what could never decide, and sort the states for looking them up."""
        if self.stop not in ("gate", "confidence"):
            raise ValueError(f"stop must be 'gate' or 'confidence', got {self.stop!r}")
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must lie in [0, 1), got {self.threshold}")
        if not 0 < self.floor < 1:
            raise ValueError(f"floor must lie in (0, 1), got {self.floor}")
        num_states, num_learners = self.depths.shape
        if self.weights.shape != self.depths.shape or self.gates.shape != (num_states, 3 * len(FEATURES) + 1):
            raise ValueError(f"weights and gates must have a row for each of {num_states} states")
        if not all(np.isfinite(table).all() for table in (self.weights, self.gates)):
            raise ValueError("weights and gates must be finite")
        if (
            not ((self.depths >= -1) & (self.depths < self.num_exits)).all()
            or (self.depths.max(1, initial=-1) < 0).any()
        ):
            raise ValueError(f"states must hold exits -1 to {self.num_exits - 1}, and somebody who has voted")
        if not (self.gates[:, len(FEATURES) : 2 * len(FEATURES)] > 0).all():
            raise ValueError("scales of gates must be positive")
        if (self.num_exits + 1) ** num_learners >= 2**63:
            raise ValueError(f"a pool of {num_learners} learners with {self.num_exits} exits has too many states")
        codes = self._code(self.depths.T)
        if (codes[1:] <= codes[:-1]).any():
            raise ValueError("states must be distinct and sorted by their code, learner 0 counting least")
        object.__setattr__(self, "_codes", codes)
        object.__setattr__(self, "_rows", {code: row for row, code in enumerate(codes.tolist())})

    @classmethod
    def fit(
        cls,
        probs: Array,
        labels: Array,
        *,
        present: Array | None = None,
        paths: Sequence[Sequence[tuple[int, int]]] | None = None,
        floor: float = 1e-3,
        ridge: float = 1e-3,
        progress: Callable[[int, int], None] | None = None,
    ) -> "Pool":
        """Fit weights and gates on a calibration split that no learner was trained on.

        Args:
            probs: ``[E, K, N, C]``.
            labels: ``[N]`` the truth.
            present: ``[E, K, N]`` which branches voted; a state is fitted on the samples where all of its did.
            paths: fit only the states along these paths and those one absent learner away from them; needed where
                there are more than 1,024 states.
            floor: see :class:`Pool`.
            ridge: weight of the squared distance from the uniform mean, and of the gate's squared coefficients.
            progress: called with the number of states done, and of all.

        Example:
            >>> rng = np.random.default_rng(0)
            >>> labels = rng.integers(3, size=500)
            >>> logits = 2 * np.eye(3)[labels] + rng.normal(size=(2, 2, 500, 3))
            >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            >>> pool = Pool.fit(probs, labels).with_(path=[(0, 0), (1, 0), (0, 1), (1, 1)])
            >>> len(pool.weights), pool
            (8, the pool, path 0.0 0.1 1.0 1.1, repair below 0.02)
        """
        from quorate.squad.pool_fit import fit_pool

        return fit_pool(probs, labels, present, paths, floor, ridge, progress)

    def with_(
        self,
        *,
        stop: Literal["gate", "confidence"] | None = None,
        threshold: float | None = None,
        path: Sequence[tuple[int, int]] | EllipsisType | None = ...,
    ) -> Self:
        """The same fit with another test, threshold or path; what is not given stays.

        Args:
            stop: see :class:`Pool`; with another test and no threshold its default is taken (0.02, or 0.9).
            threshold: see :class:`Pool`.
            path: ``[(exit, learner), ...]``, every branch once and each learner's exits in order; None: votes count in
                order of arrival.
        """
        if stop is not None and stop != self.stop and threshold is None:
            threshold = {"gate": 0.02, "confidence": 0.9}.get(stop)
        along = self.path_
        if not isinstance(path, EllipsisType):
            along = None if path is None else self._checked_path(path)
        return replace(
            self,
            stop=self.stop if stop is None else stop,
            threshold=self.threshold if threshold is None else threshold,
            path_=along,
        )

    def _checked_path(self, path: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        num_learners = self.depths.shape[1]
        given = [(int(e), int(k)) for e, k in path]
        wanted = {(e, k) for e in range(self.num_exits) for k in range(num_learners)}
        if set(given) != wanted or len(given) != len(wanted):
            raise ValueError(
                f"path must name each of the {len(wanted)} branches (exit, learner) once, got {len(given)} of which "
                f"{len(set(given) & wanted)} are branches"
            )
        for k in range(num_learners):
            exits = [e for e, j in given if j == k]
            if exits != sorted(exits):
                raise ValueError(f"path must name the exits of each learner in order, got {exits} for learner {k}")
        return tuple(e * num_learners + k for e, k in given)

    def __repr__(self) -> str:
        """Not the numbers: what they do."""
        return str(self)

    def __str__(self) -> str:
        """As tables name it."""
        num_learners = self.depths.shape[1]
        walk = "in order of arrival"
        if self.path_ is not None:
            walk = "path " + " ".join("{1}.{0}".format(*divmod(branch, num_learners)) for branch in self.path_)
        test = f"repair below {self.threshold:g}" if self.stop == "gate" else f"confidence above {self.threshold:g}"
        return f"the pool, {walk}, {test}"

    @property
    def level(self) -> float:
        """The threshold; the gate's score is minus the chance of repair."""
        return -self.threshold if self.stop == "gate" else self.threshold

    @property
    def in_order(self) -> bool:
        """Not without a path."""
        return self.path_ is not None

    def path(self, lattice: Lattice) -> list[int]:
        """The path, or the order in which devices that all start at once would be done."""
        if lattice.macs.shape != (self.num_exits, self.depths.shape[1]):
            raise ValueError(
                f"the pool was fitted on {self.num_exits} exits of {self.depths.shape[1]} learners, "
                f"this committee has {lattice.macs.shape[0]} of {lattice.macs.shape[1]}: fit it again"
            )
        return by_cumulative_cost(lattice.macs) if self.path_ is None else list(self.path_)

    def keep(self, probs: Array) -> Array:
        """``log max(p, floor)``."""
        xp = namespace(probs)
        return xp.log(xp.maximum(probs, xp.full_like(probs, self.floor)))

    def mix(self, seen: Seen) -> Array:
        """The pooled distribution, float64."""
        if seen.kept.shape[1] == 1 and isinstance(seen.kept, np.ndarray):
            return self._mix_one(seen)[0][None]
        return self._mix(seen, self._state(seen)[0])

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """Minus the chance of repair, or the largest probability; minus infinity in a state without a fit."""
        xp = namespace(seen.kept)
        if seen.kept.shape[1] == 1 and xp is np:
            return self._score_one(seen)
        state, fitted = self._state(seen)
        probs = self._mix(seen, state)
        if self.stop == "confidence":
            score = xp.max(probs, axis=-1)
        else:
            label = xp.argmax(probs, axis=-1)
            agree = xp.sum(xp.astype(seen.votes == label, xp.float64), axis=0) / seen.voters
            score = -self._chance(features(probs, agree), state)
        return xp.where(fitted, score, -xp.inf)

    def _score_one(self, seen: Seen) -> Array:
        """:meth:`score` for a batch of one: a fifth of the time, and by test the same."""
        probs, row = self._mix_one(seen)
        if row is None:
            return np.full(1, -math.inf)
        first = int(probs.argmax())
        top = float(probs[first])
        if self.stop == "confidence":
            return np.full(1, top)
        others = probs.copy()
        others[first] = 0
        entropy = -float((probs * np.log(np.maximum(probs, 1e-300))).sum())
        clipped = min(max(top, 1e-6), 1 - 1e-6)
        voters = [vote for vote in seen.votes[:, 0].tolist() if vote >= 0]
        known = (top, top - float(others.max()), entropy, math.log(clipped) - math.log(1 - clipped),
                 voters.count(first) / len(voters))  # fmt: skip
        gate, num = self.gates[row].tolist(), len(FEATURES)
        chance = gate[-1]
        for i, value in enumerate(known):
            chance += gate[i + 2 * num] * (value - gate[i]) / gate[i + num]
        return np.full(1, -1 / (1 + math.exp(-min(max(chance, -700.0), 700.0))))

    def _mix_one(self, seen: Seen) -> tuple[Array, int | None]:
        """The distribution ``[C]`` of a batch of one, and the row of its state."""
        depth = seen.depth[:, 0].tolist()
        row: int | None = self._rows.get(self._code(depth))
        voters = [k for k, exit_ in enumerate(depth) if exit_ >= 0]
        weights = [1 / len(voters)] * len(depth) if voters and row is None else self.weights[row or 0].tolist()
        z = np.zeros(seen.kept.shape[2])
        for k in voters:
            z += weights[k] * seen.kept[k, 0].astype(np.float64)
        probs = np.exp(z - z.max())
        return probs / probs.sum(), row

    def _code(self, depth: Array) -> Array:
        """``[n]``: depth vectors ``[K, n]`` as numbers, learner 0 counting least."""
        code = depth[0] + 1
        for k in range(1, len(depth)):
            code = code + (depth[k] + 1) * (self.num_exits + 1) ** k
        return code

    def _state(self, seen: Seen) -> tuple[Array, Array]:
        """``[n]`` row of each sample's state (some row where there is none), and whether it was fitted."""
        xp = namespace(seen.depth)
        codes = xp.asarray(self._codes, device=seen.depth.device)
        code = self._code(seen.depth)
        row = xp.clip(xp.searchsorted(codes, code), 0, len(codes) - 1)
        return row, xp.take(codes, row) == code

    def _mix(self, seen: Seen, state: Array) -> Array:
        xp = namespace(seen.kept)
        weights = xp.asarray(self.weights, device=seen.kept.device)
        codes = xp.asarray(self._codes, device=seen.depth.device)
        fitted = xp.take(codes, state) == self._code(seen.depth)
        z = xp.zeros(seen.kept.shape[1:], dtype=xp.float64, device=seen.kept.device)
        for k in range(len(seen.kept)):
            w = xp.where(fitted, xp.take(weights[:, k], state), (seen.depth[k] >= 0) / seen.voters)
            z = z + w[:, None] * seen.kept[k]
        return softmax(z)

    def _chance(self, feature: Array, state: Array) -> Array:
        """``[n]``: the chance that the full pool is right where the present answer is wrong."""
        xp = namespace(feature)
        gates = xp.asarray(self.gates, device=feature.device)
        num = len(FEATURES)
        z = xp.take(gates[:, -1], state)
        for i in range(num):
            mean, scale, coefficient = (xp.take(gates[:, i + j * num], state) for j in range(3))
            z = z + coefficient * (feature[i] - mean) / scale
        return 1 / (1 + xp.exp(-z))

    def as_json(self) -> dict[str, Any]:
        """Its numbers, exactly; :meth:`from_json` is the way back."""
        return {
            "num_exits": self.num_exits,
            "depths": self.depths.tolist(),
            "weights": self.weights.tolist(),
            "gates": self.gates.tolist(),
            "floor": self.floor,
            "stop": self.stop,
            "threshold": self.threshold,
            "path": None if self.path_ is None else list(self.path_),
            "notes": list(self.notes),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Pool":
        """A pool from what :meth:`as_json` gave."""
        fields = dict(document)
        path = fields.pop("path")
        pool = cls(
            **{
                **fields,
                "depths": np.asarray(fields["depths"], dtype=np.int64),
                "weights": np.asarray(fields["weights"], dtype=np.float64),
                "gates": np.asarray(fields["gates"], dtype=np.float64),
                "notes": tuple(fields["notes"]),
            }
        )
        if path is None:
            return pool
        return pool.with_(path=[divmod(int(branch), pool.depths.shape[1]) for branch in path])


def softmax(z: Array) -> Array:
    """Rows of exponentials that sum to 1."""
    xp = namespace(z)
    e = xp.exp(z - xp.max(z, axis=-1)[:, None])
    return e / xp.sum(e, axis=-1)[:, None]
