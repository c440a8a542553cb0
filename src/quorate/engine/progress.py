"""How far each learner has come with each sample of one call, and what it said on the way.

A learner advances for exactly the samples that are asked for, from wherever each of them stopped. Samples that meet at
the same exit continue as one batch. A learner that raises is not run again in this call.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples of the call, ``n`` of them at a time, ``C`` classes.
This file does not know which votes are wanted next, nor what they are for.
"""

from typing import Any, NamedTuple

import numpy as np

from quorate.engine.networks import Array, Networks, State, checked

__all__ = ["Fault", "Progress"]


class Fault(NamedTuple):
    """What went wrong with one learner in one call.

    Attributes:
        learner: which one.
        exit: where it first failed.
        reason: what it raised, or that it gave NaN.
        samples: how many samples wanted a vote of it and did not get it.
        ran: per exit, how many samples it processed there without a vote coming of it; not among the ``branches``.
    """

    learner: int
    exit: int
    reason: str
    samples: int
    ran: tuple[int, ...]

    def __str__(self) -> str:
        """As a warning says it."""
        return f"learner {self.learner} failed at exit {self.exit} ({self.reason}): {self.samples} samples without it"


class Parked(NamedTuple):
    """Samples that wait before a branch: sample ``rows[i]`` is row ``at[i]`` of a state of ``size`` rows."""

    rows: Array
    at: Array
    state: State
    size: int

    def where(self, mine: Array) -> "Parked":
        """Some of them; the state is shared."""
        return self._replace(rows=self.rows[mine], at=self.at[mine])


class Progress:
    """The learners of one call.

    Args:
        networks: who runs.
        inputs: what :meth:`Networks.first` reads.
        n: how many samples there are.

    Attributes:
        processed: ``[E, K]`` how many samples each branch processed, whatever came of it.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> networks = RecordedNetworks(np.full((2, 1, 3, 2), 0.5))
        >>> progress = Progress(networks, None, 3)
        >>> progress.advance(0, 1, np.array([2]))
        array([[0.5, 0.5]])
        >>> progress.ran.tolist()
        [[1], [1]]
    """

    def __init__(self, networks: Networks, inputs: Any, n: int) -> None:
        """See the class."""
        num_exits, num_learners = networks.present.shape
        self.networks, self.inputs, self.n = networks, inputs, n
        self.processed = np.zeros((num_exits, num_learners), dtype=np.int64)
        self._begin = np.argmax(networks.present, axis=0)
        self._next = np.repeat(self._begin[:, None], n, axis=1)
        self._said: dict[tuple[int, int], Array] = {}
        self._asked = np.zeros((num_exits, num_learners, n), dtype=bool)
        self._missed = np.zeros((num_learners, n), dtype=bool)
        self._parked: dict[tuple[int, int], list[Parked]] = {}
        self._first_fault: dict[int, tuple[int, str]] = {}
        self._dead: set[int] = set()

    def advance(self, k: int, e: int, rows: Array) -> Array:
        """``[len(rows), C]``: what branch ``(e, k)`` says, run now where it was not; NaN where nothing comes of it."""
        if not self.networks.present[e, k]:
            return np.full((len(rows), self.networks.classes), np.nan, dtype=np.float32)
        if self.networks.chained:
            behind = rows[self._next[k, rows] <= e]
            if len(behind) and k not in self._dead:
                self._walk(k, e, behind)
        else:
            said = self._said.get((e, k))
            fresh = rows if said is None else rows[np.isnan(said[rows, 0])]
            if len(fresh) and k not in self._dead:
                self._run(k, e, Parked(fresh, fresh, self.networks.first(k, self.inputs, fresh), len(fresh)))
        return self._heard(k, e, rows)

    def forget(self, open_: Array) -> None:
        """Drop the states of decided samples; what is left is copied together once it is half of what is held."""
        for place, waiting in self._parked.items():
            left = [parked.where(open_[parked.rows]) for parked in waiting]
            self._parked[place] = [self._compact(parked) for parked in left if len(parked.rows)]

    @property
    def held(self) -> int:
        """How many rows of states are in memory."""
        sizes = {id(p.state): p.size for waiting in self._parked.values() for p in waiting}
        return sum(sizes.values())

    @property
    def ran(self) -> Array:
        """``[E, K]`` how many samples each branch processed on the way to a vote that was given."""
        ran = self._asked
        if self.networks.chained:
            ran = np.logical_or.accumulate(ran[::-1], axis=0)[::-1]
        return np.where(self.networks.present, ran.sum(axis=2), 0)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What failed, by learner."""
        lost = self.processed - self.ran
        return tuple(
            Fault(k, e, reason, int(self._missed[k].sum()), tuple(lost[:, k].tolist()))
            for k, (e, reason) in sorted(self._first_fault.items())
        )

    def _walk(self, k: int, e: int, rows: Array) -> None:
        """Take every one of ``rows`` through exit ``e``, picking them up exit by exit where they stopped."""
        mine = np.zeros(self.n, dtype=bool)
        mine[rows] = True
        moving: Parked | None = None
        for d in range(int(self._next[k, rows].min()), e + 1):
            groups = [] if moving is None else [moving]
            groups += self._picked_up(k, d, rows, mine)
            if groups:
                moving = self._run(k, d, self._joined(groups))
                if moving is None:
                    return
        if moving is not None and e + 1 < len(self.processed):
            self._parked.setdefault((k, e + 1), []).append(moving)

    def _picked_up(self, k: int, d: int, rows: Array, mine: Array) -> list[Parked]:
        """Those of ``rows`` that wait before branch ``(d, k)``."""
        if d == self._begin[k]:
            new = rows[self._next[k, rows] == d]
            state = self.networks.first(k, self.inputs, new) if len(new) else None
            return [Parked(new, np.arange(len(new)), state, len(new))] if len(new) else []
        taken, left = [], []
        for parked in self._parked.pop((k, d), []):
            here = mine[parked.rows]
            taken += [parked.where(here)] if here.any() else []
            left += [parked.where(~here)] if not here.all() else []
        if left:
            self._parked[k, d] = left
        return taken

    def _joined(self, groups: list[Parked]) -> Parked:
        states = [g.state if len(g.at) == g.size else self.networks.take(g.state, g.at) for g in groups]
        if len(groups) == 1:
            return groups[0]._replace(state=states[0], at=np.arange(len(groups[0].rows)), size=len(groups[0].rows))
        rows = np.concatenate([g.rows for g in groups])
        return Parked(rows, np.arange(len(rows)), self.networks.join(states), len(rows))

    def _compact(self, parked: Parked) -> Parked:
        n = len(parked.rows)
        return parked if 2 * n > parked.size else self._joined([parked])

    def _run(self, k: int, e: int, batch: Parked) -> Parked | None:
        """Run one branch and note what it said; None once the learner has raised."""
        n, classes = len(batch.rows), self.networks.classes
        self.processed[e, k] += n
        try:
            state, probs = checked(self.networks.run(k, e, batch.state), n, classes)
        except Exception as error:  # noqa: BLE001 - whatever a learner raises, the others can still decide
            self._dead.add(k)
            self._first_fault.setdefault(k, (e, f"{type(error).__name__}: {error}"))
            return None
        if (e, k) not in self._said:
            self._said[e, k] = np.full((self.n, classes), np.nan, dtype=probs.dtype)
        self._said[e, k][batch.rows] = probs
        self._next[k, batch.rows] = e + 1
        return Parked(batch.rows, np.arange(n), state, n)

    def _heard(self, k: int, e: int, rows: Array) -> Array:
        """Look up what was said, and note what was not."""
        said = self._said.get((e, k))
        probs = np.full((len(rows), self.networks.classes), np.nan, dtype=np.float32) if said is None else said[rows]
        absent = np.isnan(probs).any(axis=1)
        self._asked[e, k, rows] = ~absent
        if absent.any():
            probs[absent] = np.nan
            self._missed[k, rows[absent]] = True
            self._first_fault.setdefault(k, (e, "it gave NaN"))
        return probs
