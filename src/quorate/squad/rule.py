"""SQUAD, the paper's rule (section 4): a quorum at each exit, then a t-test on the agreeing confidences.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``n`` of them in a call, ``C`` classes; ``votes``, ``confidences``
and ``distributions`` stand in voting order (first axis: rank). This file does not know where votes come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from quorate.squad.arrays import most_probable, namespace
from quorate.squad.exit_test import bound_of, confidence, critical_values
from quorate.squad.protocol import DECIDED, Array, Lattice, Verdict
from quorate.squad.voting import plurality, quorum_size

__all__ = ["Rule", "RuleState"]


class RuleState(NamedTuple):
    """What the rule knows of ``N`` samples. The ballots are those of ``voice``, the deepest stage with a vote.

    Attributes:
        lattice: the committee.
        open: ``[N]`` whether the sample still wants votes.
        stage: ``[N]`` the open exit, or the one where it was decided.
        heard: ``[N]`` votes heard at the open exit, absent ones included: the next rank.
        lead: ``[N]`` the highest tally at the open exit.
        consensus: ``[N]`` the class with the quorum there, or -1.
        voice: ``[N]`` deepest exit at which somebody has voted, -1 at first.
        votes: ``[K, N]`` classes voted for at that exit by rank, -1 for none.
        confidences: ``[K, N]`` and
        distributions: ``[K, N, C]`` of those votes.
        passed, waited, cast, pivot, reached: as in :class:`Verdict`.
        early: votes told before their stage opened, by exit in the order told.
    """

    lattice: Lattice
    open: Array
    stage: Array
    heard: Array
    lead: Array
    consensus: Array
    voice: Array
    votes: Array
    confidences: Array
    distributions: Array
    passed: Array
    waited: Array
    cast: Array
    pivot: Array
    reached: Array
    early: dict[int, list[tuple[Array, int, Array]]]


@dataclass(frozen=True)
class Rule:
    """The SQUAD rule: votes come in by increasing cost until a quorum is certain, then its confidence is tested.

    At each exit the pivot settles the vote (:func:`quorate.squad.quorum`). Reached: stop when the bound of the
    panel's confidences (:func:`quorate.squad.confidence`) is above ``threshold`` (Eq. 8). Otherwise, or unfeasible:
    one exit deeper. At the last exit an answer is forced: the consensus, or the plurality of the votes cast.

    Args:
        criterion: ``"t-test"`` (Eq. 7) or ``"mean"``.
        threshold: in [0, 1); the bound must be strictly above it.
        significance: alpha of the one-sided t-test, in (0, 0.5).
        panel: ``"pivot"``: those who had voted for the consensus up to the pivot. ``"all"``: every branch of the exit
            that votes for it, which makes a reached stage wait for all K votes.
        critical: t values for 1, 2, ... degrees of freedom, where neither the built-in table (0.05) nor scipy serves.

    Note:
        The paper's text takes the panel from all K branches, its protocol is incremental; ``panel`` offers both. An
        absent branch keeps its rank and votes for nobody. At the last exit a stage in which nobody has voted goes on
        asking; a sample for which nobody could vote there gets label -1.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import replay
        >>> probs = np.array([[[[0.9, 0.1]], [[0.8, 0.2]], [[0.3, 0.7]]]])  # one exit, three learners, one sample
        >>> outcome = replay(probs, [[1, 2, 3]], Rule(criterion="mean", threshold=0.8))
        >>> outcome.label, outcome.passed, outcome.pivot
        (array([0]), array([ True]), array([[1]]))
    """

    criterion: Literal["t-test", "mean"] = "t-test"
    threshold: float = 0.9
    significance: float = 0.05
    panel: Literal["pivot", "all"] = "pivot"
    critical: Sequence[float] | None = None

    def __post_init__(self) -> None:
        """Refuse what could never decide."""
        if self.criterion not in ("t-test", "mean"):
            raise ValueError(f"criterion must be 't-test' or 'mean', got {self.criterion!r}")
        if self.panel not in ("pivot", "all"):
            raise ValueError(f"panel must be 'pivot' or 'all', got {self.panel!r}")
        if not 0 <= self.threshold < 1:
            raise ValueError(f"threshold must lie in [0, 1), got {self.threshold}")
        if not 0 < self.significance < 0.5:
            raise ValueError(f"significance must lie in (0, 0.5), got {self.significance}")
        if self.critical is not None:
            table = tuple(float(t) for t in self.critical)
            if not all(0 < t < float("inf") for t in table):
                raise ValueError(f"critical must hold positive t values, got {table}")
            object.__setattr__(self, "critical", table)

    def __str__(self) -> str:
        """As tables name it."""
        panel = ", all who agree" if self.panel == "all" else ""
        return f"SQUAD, {self.criterion} above {self.threshold:g}{panel}"

    def critical_for(self, num_learners: int) -> tuple[float, ...] | None:
        """The critical values that panels of up to ``num_learners`` may need; None for the mean."""
        if self.criterion == "mean":
            return None
        if num_learners < 2:
            raise ValueError(
                "criterion='t-test' needs at least 2 learners, got 1: "
                "one confidence has no deviation; use criterion='mean'"
            )
        most = num_learners - 1 if self.panel == "all" else quorum_size(num_learners) - 1
        if self.critical is None:
            return critical_values(self.significance, most)
        if len(self.critical) < most:
            raise ValueError(
                f"critical must hold t values for 1 to {most} degrees of freedom with {num_learners} learners, "
                f"got {len(self.critical)}"
            )
        return tuple(self.critical)

    def start(self, n: int, lattice: Lattice) -> RuleState:
        """Nobody has voted: every sample stands before exit 0."""
        xp = namespace(lattice.like)
        num_exits, num_learners = lattice.macs.shape
        self.critical_for(num_learners)
        device = lattice.like.device

        def full(*shape: int, value: int | bool = -1) -> Array:
            dtype = xp.bool if isinstance(value, bool) else xp.int64
            return xp.full((*shape, n), value, dtype=dtype, device=device)

        return RuleState(
            lattice,
            open=full(value=True),
            stage=full(value=0),
            heard=full(value=0),
            lead=full(value=0),
            consensus=full(),
            voice=full(),
            votes=full(num_learners),
            confidences=xp.zeros((num_learners, n), dtype=xp.float64, device=device),
            distributions=xp.zeros((num_learners, n, lattice.classes), dtype=lattice.like.dtype, device=device),
            passed=full(value=False),
            waited=full(num_exits, num_learners),
            cast=full(num_exits, num_learners, value=False),
            pivot=full(num_exits),
            reached=full(num_exits, value=False),
            early={},
        )

    def wanted(self, state: RuleState) -> Array:
        """The first branch in voting order, at each sample's open exit, that has not been heard."""
        xp = namespace(state.open)
        num_learners, n = state.votes.shape
        if n == 1 and isinstance(state.open, np.ndarray):
            return np.full(1, self._wanted_one(state))
        ranks = xp.arange(n, device=state.open.device)
        order = state.lattice.order[state.stage, :, ranks if state.lattice.order.shape[2] > 1 else 0]
        unheard = state.waited[state.stage[:, None], order, ranks[:, None]] < 0
        learner = order[ranks, xp.argmax(xp.astype(unheard, xp.int64), axis=1)]
        return xp.where(state.open, state.stage * num_learners + learner, DECIDED)

    def _wanted_one(self, state: RuleState) -> int:
        """:meth:`wanted` for a batch of one, in plain numbers."""
        if not state.open[0]:
            return DECIDED
        e = int(state.stage[0])
        order, waited = state.lattice.order[e, :, 0].tolist(), state.waited[e, :, 0].tolist()
        return e * len(order) + int(next((k for k in order if waited[k] < 0), order[0]))

    def tell(self, state: RuleState, rows: Array, branch: int, probs: Array) -> RuleState:
        """Count one branch's votes, and settle, test and open stages as far as they lead."""
        e, k = divmod(branch, len(state.votes))
        if len(state.open) == 1 and isinstance(probs, np.ndarray):
            if len(rows):
                self._tell_one(state, e, k, probs)
            return state
        fresh = state.open[rows] & (state.waited[e, k, rows] < 0)
        later = fresh & (state.stage[rows] < e)
        if later.any():
            state.early.setdefault(e, []).append((rows[later], branch, probs[later]))
        now = fresh & (state.stage[rows] == e)
        if now.any():
            if not now.all():
                rows, probs = rows[now], probs[now]
            self._count(state, rows, e, k, probs)
            self._close(state, rows, e)
        return state

    def _count(self, state: RuleState, rows: Array, e: int, k: int, probs: Array) -> None:
        xp = namespace(state.open)
        num_learners = len(state.votes)
        need = quorum_size(num_learners)
        vote, sure = most_probable(probs)
        voted, rank = vote >= 0, state.heard[rows]
        first = voted & (state.voice[rows] < e)
        if first.any():
            state.votes[:, rows[first]] = -1
            state.voice[rows[first]] = e
        if voted.all():
            state.votes[rank, rows], state.confidences[rank, rows] = vote, sure
            state.distributions[rank, rows] = probs
        else:
            at = (rank[voted], rows[voted])
            state.votes[at], state.confidences[at], state.distributions[at] = vote[voted], sure[voted], probs[voted]
        agree = xp.where(voted, xp.sum(state.votes[:, rows] == vote, axis=0), 0)
        lead = xp.maximum(state.lead[rows], agree)
        unsettled = state.pivot[e, rows] < 0
        reached = unsettled & (agree >= need)
        unfeasible = unsettled & (lead + (num_learners - 1 - rank) < need)
        state.lead[rows] = lead
        state.heard[rows] = rank + 1
        state.waited[e, k, rows] = rank
        state.cast[e, k, rows] = voted
        state.pivot[e, rows] = xp.where(reached | unfeasible, rank, state.pivot[e, rows])
        state.reached[e, rows] |= reached
        state.consensus[rows] = xp.where(reached, vote, state.consensus[rows])

    def _close(self, state: RuleState, rows: Array, e: int) -> None:
        """Make the exit test where the stage has all it waits for; open the next one where it does not pass."""
        num_exits, num_learners, _ = state.waited.shape
        reached = state.reached[e, rows]
        enough = state.heard[rows] == num_learners
        if self.panel == "pivot":
            enough = enough | reached
        unfeasible = ~reached & (state.pivot[e, rows] >= 0)
        enough = enough | ((unfeasible & (state.voice[rows] == e)) if e == num_exits - 1 else unfeasible)
        if not enough.any():
            return
        rows = rows[enough]
        panel = (state.votes[:, rows] == state.consensus[rows]) & state.reached[e, rows]
        _, bound = confidence(state.confidences[:, rows], panel, self.critical_for(num_learners))
        passed = bound > self.threshold
        state.passed[rows] = passed
        if e == num_exits - 1:
            state.open[rows] = False
            return
        state.open[rows[passed]] = False
        deeper = rows[~passed]
        state.stage[deeper] = e + 1
        state.heard[deeper] = state.lead[deeper] = 0
        state.consensus[deeper] = -1
        self._hear_early(state, deeper, e + 1)

    def _tell_one(self, state: RuleState, e: int, k: int, probs: Array) -> None:
        """:meth:`tell` for a batch of one, in plain numbers: a tenth of the time, and by test the same."""
        num_learners = len(state.votes)
        stage = int(state.stage[0])
        if not state.open[0] or state.waited[e, k, 0] >= 0 or stage > e:
            return
        if stage < e:
            state.early.setdefault(e, []).append((np.zeros(1, np.int64), e * num_learners + k, probs))
            return
        vote = int(probs[0].argmax())
        sure, rank, need = float(probs[0, vote]), int(state.heard[0]), quorum_size(num_learners)
        voted, agree = sure == sure, 0
        if voted:
            if state.voice[0] < e:
                state.votes[:, 0] = -1
                state.voice[0] = e
            state.votes[rank, 0], state.confidences[rank, 0], state.distributions[rank, 0] = vote, sure, probs[0]
            agree = state.votes[:, 0].tolist().count(vote)
        lead = max(int(state.lead[0]), agree)
        if state.pivot[e, 0] < 0 and (agree >= need or lead + num_learners - 1 - rank < need):
            state.pivot[e, 0] = rank
            if agree >= need:
                state.reached[e, 0], state.consensus[0] = True, vote
        state.lead[0], state.heard[0], state.waited[e, k, 0], state.cast[e, k, 0] = lead, rank + 1, rank, voted
        self._close_one(state, e, rank + 1)

    def _close_one(self, state: RuleState, e: int, heard: int) -> None:
        num_exits, num_learners, _ = state.waited.shape
        reached, last = bool(state.reached[e, 0]), e == num_exits - 1
        unfeasible = state.pivot[e, 0] >= 0 and not reached and (not last or state.voice[0] == e)
        if not (heard == num_learners or unfeasible or (reached and self.panel == "pivot")):
            return
        if reached:
            ballots = zip(state.votes[:, 0].tolist(), state.confidences[:, 0].tolist(), strict=True)
            panel = [sure for vote, sure in ballots if vote == state.consensus[0]]
            state.passed[0] = bound_of(panel, self.critical_for(num_learners)) > self.threshold
        state.open[0] = not (last or state.passed[0])
        if state.open[0]:
            state.stage[0], state.heard[0], state.lead[0], state.consensus[0] = e + 1, 0, 0, -1
            self._hear_early(state, np.zeros(1, np.int64), e + 1)

    def _hear_early(self, state: RuleState, rows: Array, e: int) -> None:
        """Count what had been told of exit ``e`` before it opened for ``rows``."""
        if e not in state.early or not len(rows):
            return
        opened = state.open & False
        opened[rows] = True
        told, state.early[e] = state.early[e], []
        for early_rows, branch, probs in told:
            mine = opened[early_rows]
            if not mine.all():
                state.early[e].append((early_rows[~mine], branch, probs[~mine]))
            if mine.any():
                self.tell(state, early_rows[mine], branch, probs[mine])

    def verdict(self, state: RuleState) -> Verdict:
        """The answers; for open samples what would be forced if the deepest stage with a vote were the last.

        Note:
            The paper gives no confidence to an answer. Ours: the mean of the panel, or of the branches that voted for
            a forced answer; ``probs`` is the mean of the same branches' distributions.
        """
        xp = namespace(state.open)
        num_exits = len(state.pivot)
        silent = (state.voice < 0) | (~state.open & (state.voice < state.stage))
        votes = xp.where(silent, -1, state.votes)
        label = xp.where(silent | state.open, -1, state.consensus)
        split = xp.nonzero(label < 0)[0]
        if len(split):
            label[split] = plurality(votes[:, split], state.distributions[:, split])
        panel = (votes == label) & ~silent
        sure, _ = confidence(state.confidences, panel)
        exit_ = xp.where(silent, num_exits - 1, state.voice)
        return Verdict(
            label,
            exit_,
            sure,
            mean_distribution(state.distributions, panel),
            state.passed,
            state.waited,
            state.cast,
            xp.full(len(state.votes), True, dtype=xp.bool, device=state.open.device),
            state.pivot,
            state.reached,
        )


def mean_distribution(distributions: Sequence[Array], panel: Array) -> Array:
    """``[N, C]``: mean over the panel of the ``K`` distributions ``[N, C]``, summed in voting order; 0 for no panel."""
    xp = namespace(panel)
    total, n = distributions[0] * 0, panel[0] * 0
    for p, on in zip(distributions, panel, strict=True):
        total = total + p * on[:, None]
        n = n + on
    return total / xp.astype(xp.maximum(n, n * 0 + 1), total.dtype)[:, None]
