"""Policies that follow a path through the lattice and judge the deepest vote of each learner.

All that such a policy adds is three short answers: its path, its distribution, and a score that grows with the wish to
stop. What holds for all of them is here: votes told out of turn wait for theirs, absent branches are passed over and
bring no new test, and the end of the path answers always.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``n`` of them in a call, ``C`` classes, ``P`` branches on the path.
This file does not know how distributions are combined.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.protocol import DECIDED, Array, Lattice, Verdict

__all__ = ["PathPolicy", "PathState"]


class PathState(NamedTuple):
    """What a path policy knows of ``N`` samples.

    Attributes:
        lattice: the committee.
        path: ``[P]`` branches, plus one entry that says :data:`DECIDED`.
        turn: ``[B]`` position of each branch on the path, -1 off it.
        open: ``[N]`` whether the sample still wants votes.
        at: ``[N]`` position on the path of the next vote.
        depth: ``[K, N]`` deepest exit at which each learner has voted, -1 for none.
        deepest: ``[K, N, C]`` the distributions voted there, 0 for none.
        exit: ``[N]`` exit of the last vote that counted, -1 before the first.
        passed, waited, cast: as in :class:`Verdict`.
        early: votes told before their turn, in the order told.
    """

    lattice: Lattice
    path: Array
    turn: list[int]
    open: Array
    at: Array
    depth: Array
    deepest: Array
    exit: Array
    passed: Array
    waited: Array
    cast: Array
    early: list[tuple[Array, int, Array]]


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

    @abstractmethod
    def mix(self, lattice: Lattice, depth: Array, deepest: Array) -> Array:
        """``[n, C]``: the policy's distribution, given each learner's deepest vote (at least one per sample)."""

    @abstractmethod
    def score(self, lattice: Lattice, branch: int, depth: Array, deepest: Array) -> Array:
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
            depth=xp.full((num_learners, n), -1, dtype=xp.int64, device=device),
            deepest=xp.zeros((num_learners, n, lattice.classes), dtype=dtype, device=device),
            exit=xp.full(n, -1, dtype=xp.int64, device=device),
            passed=xp.zeros(n, dtype=xp.bool, device=device),
            waited=xp.full((num_exits, num_learners, n), -1, dtype=xp.int64, device=device),
            cast=xp.zeros((num_exits, num_learners, n), dtype=xp.bool, device=device),
            early=[],
        )

    def wanted(self, state: PathState) -> Array:
        """The first branch along the path that each open sample has not been told."""
        xp = namespace(state.at)
        at = state.at
        if not self.in_order:
            unheard = state.waited.reshape(-1, len(at))[state.path[:-1]] < 0
            at = xp.argmax(xp.astype(unheard, xp.int64), axis=0)
        return xp.where(state.open, state.path[at], DECIDED)

    def tell(self, state: PathState, rows: Array, branch: int, probs: Array) -> PathState:
        """Count the votes whose turn it is; keep those of later turns; drop the others."""
        turn = state.turn[branch]
        if self.in_order:
            at = state.at[rows]
            later = state.open[rows] & (at < turn)
            if later.any():
                state.early.append((rows[later], branch, probs[later]))
            now = state.open[rows] & (at == turn)
        else:
            now = state.open[rows] & (state.waited[*divmod(branch, len(state.depth)), rows] < 0) & (turn >= 0)
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
        e, k = divmod(branch, len(state.depth))
        score = xp.full(len(rows), -xp.inf, dtype=xp.float64, device=probs.device)
        state.waited[e, k, rows] = state.at[rows]
        state.at[rows] += 1
        voted = ~(probs != probs).any(-1)
        here = rows if voted.all() else rows[voted]
        if len(here):
            state.cast[e, k, here] = True
            state.exit[here] = e
            deeper = state.depth[k, here] < e
            mine = here[deeper]
            state.depth[k, mine] = e
            state.deepest[k, mine] = (probs if here is rows else probs[voted])[deeper]
            score[voted] = self.score(state.lattice, branch, state.depth[:, here], state.deepest[:, here])
        return score

    def _hear_early(self, state: PathState, rows: Array, turn: int) -> None:
        if not state.early:
            return
        moved = state.open & False
        moved[rows] = True
        for early_rows, branch, probs in list(state.early):
            if state.turn[branch] == turn:
                mine = moved[early_rows]
                self.tell(state, early_rows[mine], branch, probs[mine])

    def verdict(self, state: PathState) -> Verdict:
        """The answers of the votes so far; label -1 where there were none."""
        xp = namespace(state.at)
        num_exits = len(state.waited)
        silent = state.exit < 0
        probs = xp.where(silent[:, None], 0.0, self.mix(state.lattice, state.depth, state.deepest))
        probs = xp.astype(probs, state.lattice.like.dtype)
        learners = np.asarray(state.turn).reshape(state.waited.shape[:2]).max(0) >= 0
        return Verdict(
            xp.where(silent, -1, probs.argmax(-1)),
            xp.where(silent, num_exits - 1, state.exit),
            xp.where(silent, 0.0, xp.astype(xp.max(probs, axis=-1), xp.float64)),
            probs,
            state.passed,
            state.waited,
            state.cast,
            learners,
        )
