"""One temperature per head, fitted on the calibration split, for policies that take probabilities as they are.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes. This file does not know what the policies do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quorate.squad.arrays import namespace, wide
from quorate.squad.protocol import Array, Lattice, Policy, Verdict

__all__ = ["Scaled", "cooled", "fit_temperatures", "scale"]

FOLDS = 5


def cooled(probs: Array, temperature: float) -> Array:
    """``softmax(log p / T)`` of each row, in at least float32.

    Example:
        >>> cooled(np.array([[0.8, 0.2]]), 2.0).round(4)
        array([[0.6667, 0.3333]])
    """
    if temperature == 1:
        return probs
    xp = namespace(probs)
    p = wide(probs)
    p = (p / xp.max(p, axis=-1)[..., None]) ** (1 / temperature)  # the largest is 1 and cannot vanish
    return p / xp.sum(p, axis=-1)[..., None]


def scale(probs: Array, temperatures: Array) -> Array:
    """Probabilities ``[E, K, N, C]`` with a temperature for each of the branches ``[E, K]``."""
    xp = namespace(probs)
    return xp.stack(
        [
            xp.stack([cooled(p, float(t)) for p, t in zip(row, ts, strict=True)])
            for row, ts in zip(wide(probs), temperatures, strict=True)
        ]
    )


@dataclass(frozen=True)
class Scaled:
    """A policy that sees each branch's distribution at that branch's temperature.

    Args:
        policy: who decides.
        temperatures: ``[E][K]``, positive; 1 leaves a branch as it is.

    Example:
        >>> from quorate.squad import Confidence, replay
        >>> probs = np.array([[[[0.8, 0.2]]], [[[0.6, 0.4]]]])
        >>> replay(probs, [[1], [1]], Scaled(Confidence(threshold=0.7), [[2.0], [1.0]])).exit
        array([1])
    """

    policy: Policy
    temperatures: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        """Keep plain numbers, and refuse temperatures that are none."""
        table = np.asarray(self.temperatures, dtype=np.float64)
        if table.ndim != 2 or not (np.isfinite(table) & (table > 0)).all():
            raise ValueError(f"temperatures must be positive numbers [exits, learners], got {self.temperatures}")
        object.__setattr__(self, "temperatures", tuple(tuple(row) for row in table.tolist()))

    def __str__(self) -> str:
        """As tables name it."""
        return f"{self.policy}, temperatures fitted"

    def apply(self, probs: Array) -> Array:
        """Recorded probabilities ``[E, K, N, C]`` at their temperatures."""
        self._check(tuple(probs.shape[:2]))
        return scale(probs, self.temperatures)

    def _check(self, shape: tuple[int, ...]) -> None:
        mine = (len(self.temperatures), len(self.temperatures[0]))
        if shape != mine:
            raise ValueError(f"temperatures are for {list(mine)} [exits, learners], the committee has {list(shape)}")

    def start(self, n: int, lattice: Lattice) -> Any:
        """The policy's own state."""
        self._check(lattice.macs.shape)
        return self.policy.start(n, lattice)

    def wanted(self, state: Any) -> Array:
        """What the policy wants."""
        return self.policy.wanted(state)

    def tell(self, state: Any, rows: Array, branch: int, probs: Array) -> Any:
        """Tell the policy what the branch says at its temperature."""
        e, k = divmod(branch, len(self.temperatures[0]))
        return self.policy.tell(state, rows, branch, cooled(probs, self.temperatures[e][k]))

    def verdict(self, state: Any) -> Verdict:
        """What the policy says."""
        return self.policy.verdict(state)


def fit_temperatures(probs: Array, labels: Array, present: Array | None = None, seed: int = 0) -> np.ndarray[Any, Any]:
    """``[E, K]``: the temperature of each head that minimises its cross-entropy; 1 where that does not carry over.

    A temperature is kept only where five-fold cross-fitting, which judges it on samples it was not fitted on, gives a
    lower loss than none at all.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=2000)
        >>> logits = 2 * np.eye(3)[labels] + 2 * rng.normal(size=(1, 1, 2000, 3))  # too sure by a factor of two
        >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        >>> bool(1.7 < fit_temperatures(probs, labels)[0, 0] < 2.3)
        True
    """
    probs, labels = np.asarray(probs), np.asarray(labels)
    num_exits, num_learners, n, _ = probs.shape
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    table = np.ones((num_exits, num_learners))
    for e in range(num_exits):
        for k in range(num_learners):
            here = np.ones(n, bool) if present is None else np.asarray(present[e, k])
            logs = np.log(np.maximum(probs[e, k][here].astype(np.float64), 1e-30))
            table[e, k] = _kept(logs, labels[here], fold[here])
    return table


def _kept(logs: Array, labels: Array, fold: Array) -> float:
    if len(labels) < 2 * FOLDS:
        return 1.0
    cross = plain = 0.0
    for f in range(FOLDS):
        out = fold == f
        if out.any() and not out.all():
            cross += _loss(logs[out], labels[out], _best(logs[~out], labels[~out])) * out.sum()
            plain += _loss(logs[out], labels[out], 1.0) * out.sum()
    return _best(logs, labels) if cross < plain else 1.0


def _best(logs: Array, labels: Array) -> float:
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda s: _loss(logs, labels, np.exp(s)), bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-3}
    )
    return float(np.exp(found.x))


def _loss(logs: Array, labels: Array, temperature: float) -> float:
    z = logs / temperature
    z = z - z.max(1, keepdims=True)
    return float((np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels]).mean())
