"""The rivals of the rule, each of a few lines: what a committee would do without it.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes. Each policy is a path, a distribution and a score.
This file knows nothing that is fitted: see ``pool`` and ``temperature``.
"""

import math
import operator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.path import PathPolicy, Seen, breadth_first, by_cumulative_cost, depth_first
from quorate.squad.protocol import Array, Lattice
from quorate.squad.rule import mean_distribution
from quorate.squad.voting import plurality

__all__ = ["Agreement", "Cascade", "Confidence", "Soft", "Static"]


def soft_vote(seen: Seen) -> Array:
    """``[n, C]``: mean over the learners that have voted of their deepest distributions, in float64.

    Example:
        >>> seen = Seen(np.array([[2], [-1]]), np.array([[0], [-1]]), np.array([[[0.9, 0.1]], [[0.0, 0.0]]]))
        >>> soft_vote(seen)
        array([[0.9, 0.1]])
    """
    xp = namespace(seen.kept)
    total = xp.zeros(seen.kept.shape[1:], dtype=xp.float64, device=seen.kept.device)
    for p in seen.kept:  # a learner that has not voted stands there as zeros
        total = total + p
    return total / seen.voters[:, None]


def largest(p: Array) -> Array:
    """The largest probability of each row, float64."""
    xp = namespace(p)
    return xp.astype(xp.max(p, axis=-1), xp.float64)


def check_threshold(threshold: float) -> None:
    """Refuse a threshold that could never be passed."""
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold must lie in [0, 1), got {threshold}")


@dataclass(frozen=True)
class Static(PathPolicy):
    """The static ensemble: every learner to its end, soft vote. The accuracy that savings are measured against.

    Example:
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.6, 0.4]], [[0.1, 0.9]]]])
        >>> replay(probs, [[1, 2]], Static()).probs
        array([[0.35, 0.65]])
    """

    def __str__(self) -> str:
        """As tables name it."""
        return "static soft vote"

    @property
    def level(self) -> float:
        """Never before the end."""
        return math.inf

    def path(self, lattice: Lattice) -> list[int]:
        """The last branch of each learner."""
        num_exits, num_learners = lattice.macs.shape
        return [(num_exits - 1) * num_learners + k for k in range(num_learners)]

    def mix(self, seen: Seen) -> Array:
        """The soft vote."""
        return soft_vote(seen)

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """Nothing speaks for stopping."""
        xp = namespace(seen.depth)
        return xp.full_like(seen.depth[0], -math.inf, dtype=xp.float64)


@dataclass(frozen=True)
class Confidence(PathPolicy):
    """One early-exit learner alone: stop at the first exit whose largest probability is above the threshold.

    Args:
        learner: which one.
        threshold: in [0, 1); strictly above it stops.

    Example:
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.6, 0.4], [0.9, 0.1]]], [[[0.2, 0.8], [0.2, 0.8]]]])
        >>> outcome = replay(probs, [[1], [1]], Confidence(threshold=0.8))
        >>> outcome.label, outcome.exit
        (array([1, 0]), array([1, 0]))
    """

    learner: int = 0
    threshold: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what could never decide."""
        check_threshold(self.threshold)
        object.__setattr__(self, "learner", operator.index(self.learner))

    def __str__(self) -> str:
        """As tables name it."""
        return f"learner {self.learner}, confidence above {self.threshold:g}"

    @property
    def level(self) -> float:
        """The threshold."""
        return self.threshold

    def path(self, lattice: Lattice) -> list[int]:
        """The exits of the learner."""
        num_exits, num_learners = lattice.macs.shape
        if not 0 <= self.learner < num_learners:
            raise ValueError(f"learner must lie in 0 to {num_learners - 1}, got {self.learner}")
        return [e * num_learners + self.learner for e in range(num_exits)]

    def mix(self, seen: Seen) -> Array:
        """What the learner said at its deepest exit."""
        return seen.kept[self.learner]

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """The exit's confidence."""
        return largest(seen.kept[self.learner])


@dataclass(frozen=True)
class Cascade(PathPolicy):
    """Whole learners in order of cost: stop when the mean of their last exits so far is sure enough.

    Args:
        threshold: in [0, 1); the largest mean probability must be strictly above it.

    Example:
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.9, 0.1], [0.6, 0.4]], [[0.2, 0.8], [0.2, 0.8]]]])
        >>> replay(probs, [[1, 2]], Cascade(0.8)).lazy_macs
        array([1., 3.])
    """

    threshold: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what could never decide."""
        check_threshold(self.threshold)

    def __str__(self) -> str:
        """As tables name it."""
        return f"cascade of whole learners above {self.threshold:g}"

    @property
    def level(self) -> float:
        """The threshold."""
        return self.threshold

    def path(self, lattice: Lattice) -> list[int]:
        """The last branch of each learner, by the cost of running it."""
        num_exits, num_learners = lattice.macs.shape
        whole = lattice.macs.sum(0) if lattice.chained else lattice.macs[-1]
        return [(num_exits - 1) * num_learners + int(k) for k in np.argsort(whole, kind="stable")]

    def mix(self, seen: Seen) -> Array:
        """The soft vote of the learners so far."""
        return soft_vote(seen)

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """Its largest probability."""
        return largest(soft_vote(seen))


@dataclass(frozen=True)
class Soft(PathPolicy):
    """Mean of each learner's deepest distribution so far: stop when its largest probability is above the threshold.

    Args:
        walk: ``"depth"`` (learner after learner), ``"breadth"`` (exit after exit) or ``"arrival"`` (as votes come;
            recorded ones without an arrival by cumulative cost).
        threshold: in [0, 1).

    Example:
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.7, 0.3]], [[0.3, 0.7]]], [[[0.9, 0.1]], [[0.4, 0.6]]]])
        >>> replay(probs, [[1, 2], [1, 2]], Soft("depth", 0.6)).lazy_macs
        array([1.])
    """

    walk: Literal["depth", "breadth", "arrival"] = "depth"
    threshold: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what could never decide."""
        check_threshold(self.threshold)
        if self.walk not in ("depth", "breadth", "arrival"):
            raise ValueError(f"walk must be 'depth', 'breadth' or 'arrival', got {self.walk!r}")

    def __str__(self) -> str:
        """As tables name it."""
        walk = "in order of arrival" if self.walk == "arrival" else f"{self.walk}-first"
        return f"soft vote so far, {walk}, above {self.threshold:g}"

    @property
    def level(self) -> float:
        """The threshold."""
        return self.threshold

    @property
    def in_order(self) -> bool:
        """Not where votes count as they arrive."""
        return self.walk != "arrival"

    def path(self, lattice: Lattice) -> list[int]:
        """All branches."""
        walks = {"depth": depth_first, "breadth": breadth_first, "arrival": by_cumulative_cost}
        return walks[self.walk](lattice.macs)

    def mix(self, seen: Seen) -> Array:
        """The soft vote so far."""
        return soft_vote(seen)

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """Its largest probability."""
        return largest(soft_vote(seen))


@dataclass(frozen=True)
class Agreement(PathPolicy):
    """Exit after exit, everybody votes: stop where at least a share of the learners agree.

    Args:
        share: of all K learners, in (0, 1]; absent ones agree with nobody.

    Note:
        The answer is the plurality at the deepest exit with a vote, its distribution the mean of those who gave it.

    Example:
        >>> from quorate.squad import replay
        >>> early = [[[0.9, 0.1], [0.6, 0.4]], [[0.7, 0.3], [0.2, 0.8]]]
        >>> probs = np.array([early, [[[0.1, 0.9]] * 2, [[0.2, 0.8]] * 2]])
        >>> replay(probs, [[1, 2], [1, 2]], Agreement(1.0)).exit
        array([0, 1])
    """

    share: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what always, or never, holds."""
        if not 0 < self.share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {self.share}")

    def __str__(self) -> str:
        """As tables name it."""
        return f"agreement of {self.share:.3g} of the learners"

    @property
    def level(self) -> float:
        """The largest number below the share: exactly the share is enough."""
        return math.nextafter(self.share, 0)

    def path(self, lattice: Lattice) -> list[int]:
        """All branches, breadth-first."""
        return breadth_first(lattice.macs)

    def _votes(self, seen: Seen) -> Array:
        """``[K, n]``: the votes at each sample's deepest exit, -1 for the others."""
        xp = namespace(seen.depth)
        return xp.where(seen.depth == xp.max(seen.depth, axis=0), seen.votes, -1)

    def mix(self, seen: Seen) -> Array:
        """The mean distribution of those who voted for the plurality."""
        votes = self._votes(seen)
        return mean_distribution(seen.kept, (votes == plurality(votes, seen.kept)) & (votes >= 0))

    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """The share of the largest agreement, once the last learner of an exit has voted."""
        xp = namespace(seen.depth)
        num_learners = len(seen.depth)
        if branch != breadth_first(lattice.macs)[(branch // num_learners + 1) * num_learners - 1]:
            return xp.full_like(seen.depth[0], -math.inf, dtype=xp.float64)
        votes = self._votes(seen)
        most = votes[0] * 0
        for vote in votes:
            agree = xp.sum(xp.astype((votes == vote) & (vote >= 0), xp.int64), axis=0)
            most = xp.maximum(most, agree)
        return xp.astype(most, xp.float64) / num_learners
