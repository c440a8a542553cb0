"""The rivals of the rule, each of a few lines: what a committee would do without it.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes. Each policy is a path, a distribution and a test.
"""

import math
from dataclasses import dataclass

from quorate.squad.arrays import namespace
from quorate.squad.path import PathPolicy
from quorate.squad.protocol import Array, Lattice

__all__ = ["Confidence", "Static", "soft_vote"]


def soft_vote(depth: Array, deepest: Array) -> Array:
    """``[n, C]``: mean over the learners that have voted of their deepest distributions, in float64.

    Example:
        >>> import numpy as np
        >>> soft_vote(np.array([[2], [-1]]), np.array([[[0.9, 0.1]], [[0.0, 0.0]]]))
        array([[0.9, 0.1]])
    """
    xp = namespace(deepest)
    total = xp.zeros(deepest.shape[1:], dtype=xp.float64, device=deepest.device)
    for p in deepest:  # a learner that has not voted stands there as zeros
        total = total + p
    voters = xp.maximum(xp.sum(xp.astype(depth >= 0, xp.int64), axis=0), depth[0] * 0 + 1)
    return total / voters[:, None]


@dataclass(frozen=True)
class Static(PathPolicy):
    """The static ensemble: every learner to its end, soft vote. The accuracy that savings are measured against.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.6, 0.4]], [[0.1, 0.9]]]])
        >>> replay(probs, [[1, 2]], Static()).probs
        array([[0.35, 0.65]])
    """

    def __str__(self) -> str:
        """As tables name it."""
        return "static soft vote"

    def path(self, lattice: Lattice) -> list[int]:
        """The last branch of each learner."""
        num_exits, num_learners = lattice.macs.shape
        return [(num_exits - 1) * num_learners + k for k in range(num_learners)]

    def mix(self, lattice: Lattice, depth: Array, deepest: Array) -> Array:
        """The soft vote."""
        return soft_vote(depth, deepest)

    @property
    def level(self) -> float:
        """Never before the end."""
        return math.inf

    def score(self, lattice: Lattice, branch: int, depth: Array, deepest: Array) -> Array:
        """Nothing speaks for stopping."""
        xp = namespace(deepest)
        return xp.astype(depth[0], xp.float64) * 0 - math.inf


@dataclass(frozen=True)
class Confidence(PathPolicy):
    """One early-exit learner alone: stop at the first exit whose largest probability is above the threshold.

    Args:
        learner: which one.
        threshold: in [0, 1); strictly above it stops.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.6, 0.4], [0.9, 0.1]]], [[[0.2, 0.8], [0.2, 0.8]]]])
        >>> outcome = replay(probs, [[1], [1]], Confidence(threshold=0.8))
        >>> outcome.label, outcome.exit
        (array([1, 0]), array([1, 0]))
    """

    learner: int = 0
    threshold: float = 0.9

    def __post_init__(self) -> None:
        """Refuse a threshold that could never be passed."""
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must lie in [0, 1), got {self.threshold}")

    def __str__(self) -> str:
        """As tables name it."""
        return f"learner {self.learner}, confidence above {self.threshold:g}"

    def path(self, lattice: Lattice) -> list[int]:
        """The exits of the learner."""
        num_exits, num_learners = lattice.macs.shape
        if not 0 <= self.learner < num_learners:
            raise ValueError(f"learner must lie in 0 to {num_learners - 1}, got {self.learner}")
        return [e * num_learners + self.learner for e in range(num_exits)]

    def mix(self, lattice: Lattice, depth: Array, deepest: Array) -> Array:
        """What the learner said at its deepest exit."""
        return deepest[self.learner]

    @property
    def level(self) -> float:
        """The threshold."""
        return self.threshold

    def score(self, lattice: Lattice, branch: int, depth: Array, deepest: Array) -> Array:
        """The exit's confidence."""
        xp = namespace(deepest)
        return xp.astype(xp.max(deepest[self.learner], axis=-1), xp.float64)
