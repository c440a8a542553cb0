"""Policies that follow a path through the lattice and judge the deepest vote of each learner.

All that such a policy adds is three short answers: its path, its distribution, and a score that grows with the wish to
stop (and, if it likes, what it keeps of a vote). What holds for all of them is here: votes told out of turn wait for
theirs, absent branches are passed over and bring no new test, and the end of the path answers always.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``n`` of them in a call, ``C`` classes, ``P`` branches on the path.
This file does not know how distributions are combined.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from quorate.squad.arrays import most_probable, namespace
from quorate.squad.protocol import DECIDED, Array, Lattice, Verdict

__all__ = ["PathPolicy", "PathState", "Seen", "breadth_first", "by_cumulative_cost", "depth_first"]


class Seen(NamedTuple):
    """The deepest vote of each learner, of ``n`` samples.

    Attributes:
        depth: ``[K, n]`` its exit, -1 for a learner that has not voted.
        votes: ``[K, n]`` its class, -1 for none.
        kept: ``[K, n, C]`` what the policy keeps of its distribution, 0 for none.
    """

    depth: Array
    votes: Array
    kept: Array

    @property
    def voters(self) -> Array:
        """``[n]``: how many learners have voted, at least 1 so that one may divide by it."""
        xp = namespace(self.depth)
        return xp.maximum(xp.sum(xp.astype(self.depth >= 0, xp.int64), axis=0), self.depth[0] * 0 + 1)


class PathState(NamedTuple):
    """What a path policy knows of ``N`` samples.

    Attributes:
        lattice: the committee.
        path: ``[P]`` branches, plus one entry that says :data:`DECIDED`.
        turn: ``[B]`` position of each branch on the path, -1 off it.
        open: ``[N]`` whether the sample still wants votes.
        at: ``[N]`` position on the path of the next vote.
        seen: the deepest votes so far.
        exit: ``[N]`` exit of the last vote that counted, -1 before the first.
        passed, waited, cast: as in :class:`Verdict`.
        early: votes told before their turn, by turn in the order told.
    """

    lattice: Lattice
    path: Array
    turn: list[int]
    open: Array
    at: Array
    seen: Seen
    exit: Array
    passed: Array
    waited: Array
    cast: Array
    early: dict[int, list[tuple[Array, int, Array]]]


class PathPolicy(ABC):
    """Follow :meth:`path`; after each vote that counts, stop if the :meth:`score` is above the :attr:`level`."""

    @property
    @abstractmethod
    def level(self) -> float:
        """What the score must exceed."""

    @property
    def in_order(self) -> bool:
        """Whether votes count in the order of the path; otherwise as they are told, the path only being asked."""
        return True

    @abstractmethod
    def path(self, lattice: Lattice) -> list[int]:
        """The branches to ask, in order."""

    def keep(self, probs: Array) -> Array:
        """What of a distribution ``[n, C]`` :meth:`mix` will want: itself."""
        return probs

    @abstractmethod
    def mix(self, seen: Seen) -> Array:
        """``[n, C]``: the policy's distribution, given each learner's deepest vote."""

    @abstractmethod
    def score(self, lattice: Lattice, branch: int, seen: Seen) -> Array:
        """``[n]``: how much speaks for stopping after the vote of ``branch``; minus infinity where nothing can."""

    def start(self, n: int, lattice: Lattice) -> PathState:
        """Everybody stands at the beginning of the path."""
        xp = namespace(lattice.like)
        num_exits, num_learners = lattice.macs.shape
        device, dtype = lattice.like.device, lattice.like.dtype
        path = self.path(lattice)
        turn = [-1] * (num_exits * num_learners)
        for position, branch in enumerate(path):
            turn[branch] = position
        return PathState(
            lattice,
            path=xp.asarray([*path, DECIDED], device=device),
            turn=turn,
            open=xp.full(n, True, dtype=xp.bool, device=device),
            at=xp.zeros(n, dtype=xp.int64, device=device),
            seen=Seen(
                xp.full((num_learners, n), -1, dtype=xp.int64, device=device),
                xp.full((num_learners, n), -1, dtype=xp.int64, device=device),
                xp.zeros((num_learners, n, lattice.classes), dtype=dtype, device=device),
            ),
            exit=xp.full(n, -1, dtype=xp.int64, device=device),
            passed=xp.zeros(n, dtype=xp.bool, device=device),
            waited=xp.full((num_exits, num_learners, n), -1, dtype=xp.int64, device=device),
            cast=xp.zeros((num_exits, num_learners, n), dtype=xp.bool, device=device),
            early={},
        )

    def wanted(self, state: PathState) -> Array:
        """The first branch along the path that each open sample has not been told."""
        xp = namespace(state.at)
        at = state.at
        if len(at) == 1 and isinstance(at, np.ndarray):
            return np.full(1, self._wanted_one(state) if state.open[0] else DECIDED)
        if not self.in_order:
            unheard = state.waited.reshape(-1, len(at))[state.path[:-1]] < 0
            at = xp.argmax(xp.astype(unheard, xp.int64), axis=0)
        return xp.where(state.open, state.path[at], DECIDED)

    def _wanted_one(self, state: PathState) -> int:
        if self.in_order:
            return int(state.path[state.at[0]])
        told = state.waited.ravel().tolist()
        return next(int(branch) for branch in state.path.tolist() if told[branch] < 0)

    def tell(self, state: PathState, rows: Array, branch: int, probs: Array) -> PathState:
        """Count the votes whose turn it is; keep those of later turns; drop the others."""
        turn = state.turn[branch]
        if len(state.open) == 1 and isinstance(probs, np.ndarray):
            if len(rows):
                self._tell_one(state, branch, turn, probs)
            return state
        if self.in_order:
            at = state.at[rows]
            later = state.open[rows] & (at < turn)
            if later.any():
                state.early.setdefault(turn, []).append((rows[later], branch, probs[later]))
            now = state.open[rows] & (at == turn)
        else:
            now = state.open[rows] & (state.waited[*divmod(branch, len(state.seen.depth)), rows] < 0) & (turn >= 0)
        if now.any():
            if not now.all():
                rows, probs = rows[now], probs[now]
            passed = self.count(state, rows, branch, probs) > self.level
            state.passed[rows] = passed
            state.open[rows] = ~passed & (state.at[rows] < len(state.path) - 1)
            if self.in_order:
                self._hear_early(state, rows, turn + 1)
        return state

    def count(self, state: PathState, rows: Array, branch: int, probs: Array) -> Array:
        """Take the votes of ``rows``, whose turn it is, and return their score; an absent vote has none."""
        xp = namespace(probs)
        e, k = divmod(branch, len(state.seen.depth))
        score = xp.full(len(rows), -xp.inf, dtype=xp.float64, device=probs.device)
        state.waited[e, k, rows] = state.at[rows]
        state.at[rows] += 1
        vote, _ = most_probable(probs)
        voted = vote >= 0
        everybody = bool(voted.all())
        here = rows if everybody else rows[voted]
        if len(here):
            depth, votes, kept = state.seen
            state.cast[e, k, here] = True
            state.exit[here] = e
            deeper = depth[k, here] < e
            if not (everybody and deeper.all()):
                vote, probs = vote[voted][deeper], probs[voted][deeper]
            mine = here[deeper]
            depth[k, mine], votes[k, mine], kept[k, mine] = e, vote, self.keep(probs)
            seen = Seen(depth[:, here], votes[:, here], kept[:, here])
            score[voted] = self.score(state.lattice, branch, seen)
        return score

    def _tell_one(self, state: PathState, branch: int, turn: int, probs: Array) -> None:
        """:meth:`tell` for a batch of one, in plain numbers: half of the time, and by test the same."""
        depth, votes, kept = state.seen
        e, k = divmod(branch, len(depth))
        at = int(state.at[0])
        if not state.open[0] or turn < 0 or state.waited[e, k, 0] >= 0 or (self.in_order and at > turn):
            return
        if self.in_order and at < turn:
            state.early.setdefault(turn, []).append((np.zeros(1, np.int64), branch, probs))
            return
        vote = int(probs[0].argmax())
        state.waited[e, k, 0], state.at[0] = at, at + 1
        if probs[0, vote] == probs[0, vote]:
            state.cast[e, k, 0], state.exit[0] = True, e
            if depth[k, 0] < e:
                depth[k, 0], votes[k, 0], kept[k, 0] = e, vote, self.keep(probs)[0]
            state.passed[0] = self.score(state.lattice, branch, state.seen)[0] > self.level
        state.open[0] = not state.passed[0] and at + 2 < len(state.path)
        if self.in_order:
            self._hear_early(state, np.zeros(1, np.int64), turn + 1)

    def _hear_early(self, state: PathState, rows: Array, turn: int) -> None:
        if turn not in state.early:
            return
        moved = state.open & False
        moved[rows] = True
        told, state.early[turn] = state.early[turn], []
        for early_rows, branch, probs in told:
            mine = moved[early_rows]
            if not mine.all():
                state.early[turn].append((early_rows[~mine], branch, probs[~mine]))
            if mine.any():
                self.tell(state, early_rows[mine], branch, probs[mine])

    def verdict(self, state: PathState) -> Verdict:
        """The answers of the votes so far, decided in the precision of :meth:`mix`; label -1 where there were none."""
        xp = namespace(state.at)
        num_exits = len(state.waited)
        silent, probs, exit_ = state.exit < 0, self.mix(state.seen), xp.asarray(state.exit, copy=True)
        label, sure = xp.argmax(probs, axis=-1), xp.astype(xp.max(probs, axis=-1), xp.float64)
        if silent.any():
            probs, label = xp.where(silent[:, None], 0.0, probs), xp.where(silent, -1, label)
            exit_, sure = xp.where(silent, num_exits - 1, exit_), xp.where(silent, 0.0, sure)
        learners = np.asarray(state.turn).reshape(state.waited.shape[:2]).max(0) >= 0
        return Verdict(
            label,
            exit_,
            sure,
            xp.astype(probs, state.lattice.like.dtype),
            state.passed,
            state.waited,
            state.cast,
            learners,
        )


def depth_first(macs: Array, learners: Sequence[int] | None = None) -> list[int]:
    """Learner after learner, each through its exits; by whole cost unless an order of ``learners`` is given.

    Example:
        >>> depth_first(np.array([[5.0, 2.0], [5.0, 2.0]]))
        [1, 3, 0, 2]
    """
    num_exits, num_learners = macs.shape
    order = np.argsort(macs.sum(0), kind="stable").tolist() if learners is None else learners
    return [e * num_learners + k for k in order for e in range(num_exits)]


def breadth_first(macs: Array) -> list[int]:
    """Exit after exit, at each the learners by increasing cost.

    Example:
        >>> breadth_first(np.array([[5.0, 2.0], [2.0, 5.0]]))
        [1, 0, 2, 3]
    """
    order = np.argsort(macs, axis=1, kind="stable")
    return [e * macs.shape[1] + int(k) for e, row in enumerate(order) for k in row]


def by_cumulative_cost(macs: Array) -> list[int]:
    """In the order in which devices that all start at once would be done; ties by exit, then learner.

    Example:
        >>> by_cumulative_cost(np.array([[5.0, 2.0], [5.0, 2.0]]))
        [1, 3, 0, 2]
    """
    return [int(branch) for branch in np.argsort(np.cumsum(macs, axis=0).ravel(), kind="stable")]
