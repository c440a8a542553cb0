"""First come, first vote: learners run at once, votes count as they arrive, what is no longer needed is stopped.

The paper simulates this protocol by counting MACs (section 4); here it happens. All learners that the policy may ask
start on the same samples. A learner goes on to its next exit without waiting for the others, with the rows that are
still open. Once everything is decided, or the time is up, what still runs is ended.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples of the call, ``n`` of them at a time, ``C`` classes; branch
``e * K + k`` is exit ``e`` of learner ``k``.
This file does not know how anybody decides, what a network computes, nor what a thread is.
"""

import queue
import time
from collections.abc import Iterable, Iterator
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from quorate.engine.networks import Array, Networks, State, Stopped
from quorate.engine.progress import Fault
from quorate.engine.workers import Crew, Offer, Task
from quorate.squad.protocol import DECIDED

__all__ = ["Arrival", "Deadline"]

FOREVER = float("inf")
GLANCE = 3600.0  # seconds after which a call that waits looks up; longer timeouts are more than a clock can hold


class Deadline:
    """When a call's time is up.

    Args:
        milliseconds: from now; None: never.

    Example:
        >>> Deadline(None).passed(), Deadline(0.0).passed()
        (False, True)
    """

    def __init__(self, milliseconds: float | None) -> None:
        """See the class."""
        if isinstance(milliseconds, bool) or not isinstance(milliseconds, Real | None):
            raise TypeError(f"deadline_ms must be a number of milliseconds, or None, got {milliseconds!r:.60}")
        self.seconds: float = FOREVER if milliseconds is None else float(milliseconds) / 1e3
        if not self.seconds >= 0:
            raise ValueError(f"deadline_ms must not be negative, got {milliseconds!r}")
        self._at = time.perf_counter() + self.seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return self._at - time.perf_counter()

    def passed(self) -> bool:
        """Whether it is over."""
        return self.left <= 0


class Lane:
    """How far one learner has come: ``rows`` of the call wait before ``exit``, as rows ``at`` of ``state``."""

    __slots__ = ("at", "exit", "gone", "rows", "state", "task", "wanted")

    def __init__(self, exit: int, rows: Array) -> None:
        self.exit, self.rows, self.wanted, self.gone = exit, rows, False, False
        self.at: Array | None = None
        self.state: State = None
        self.task: Task | None = None


class Arrival:
    """Votes in the order in which workers bring them.

    Args:
        networks: who runs. Those that cannot be stopped in the middle of a branch (torch) are stopped between branches.
        inputs: of this call, as ``networks`` reads them.
        n: number of samples.
        macs: ``[E, K]``: where there are fewer workers than learners, the branches that are done at the least cost
            come first; those that a sample waits for come before all others, and may end one that nobody waits for.
        crew: the workers.
        asks: ``[K]`` learners that the policy may ask; the others do not run. None: all of them.
        deadline: when to give up; None: never.

    Attributes:
        arrival: ``[E * K, N]`` branches in the order told, -1 beyond: what :func:`quorate.squad.replay` reproduces the
            answers with, together with ``present=~absent``.
        absent: ``[E, K, N]`` which of them were told to abstain; and branches that do not exist.

    Note:
        A learner that fails, or has not come back from an earlier call, abstains where its vote is wanted, at once.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> from quorate.squad import Confidence, Lattice, drive
        >>> probs = np.array([[[[0.6, 0.4], [0.95, 0.05]]], [[[0.2, 0.8], [0.2, 0.8]]]])
        >>> lattice = Lattice(np.ones((2, 1)), np.zeros((2, 1, 1), int), 2, probs[0, 0, :0])
        >>> networks = RecordedNetworks(probs)
        >>> source = Arrival(networks, None, 2, lattice.macs, Crew(networks, 1))
        >>> verdict, ran = drive(Confidence(), source, 2, lattice)
        >>> source.close()
        >>> verdict.label, ran.tolist(), source.arrival.tolist()
        (array([1, 0]), [[2], [1]], [[0, 0], [1, -1]])
    """

    def __init__(
        self,
        networks: Networks,
        inputs: Any,
        n: int,
        macs: Array,
        crew: Crew,
        asks: Array | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """See the class."""
        num_exits, num_learners = networks.present.shape
        self.networks, self.inputs, self.crew = networks, inputs, crew
        self._costs = np.cumsum(macs, axis=0).tolist()
        self._deadline = deadline or Deadline(None)
        self._patience = min(crew.patience, self._deadline.seconds)
        begin = np.argmax(networks.present, axis=0).tolist()
        asked = range(num_learners) if asks is None else np.flatnonzero(asks).tolist()
        self._lanes = {k: Lane(begin[k], np.arange(n)) for k in asked} if n else {}
        self._events: queue.SimpleQueue[tuple[Task, Array, Any]] = queue.SimpleQueue()
        self._open = np.ones(n, dtype=bool)
        self._faults: dict[int, tuple[int, str]] = {}
        self._missed = np.zeros((num_learners, n), dtype=bool)
        self._said = np.zeros((num_exits, num_learners, n), dtype=bool)
        self._processed = np.zeros((num_exits, num_learners), dtype=np.int64)
        self._told = np.zeros((num_exits, num_learners), dtype=bool)
        self._position = np.zeros(n, dtype=np.int64)
        self.arrival = np.full((num_exits * num_learners, n), DECIDED, dtype=np.int64)
        self.absent = np.repeat(~networks.present[:, :, None], n, axis=2)
        crew.begin(self)

    def votes(self, wanted: Array) -> Iterator[tuple[Array, int, Array]]:
        """The next branch that arrives, for the samples still open; absences first, where they are wanted."""
        with self.crew.lock:
            self._want(wanted)
            if self._events.empty():  # otherwise a vote that is already there may decide rows that would be run
                self.crew.dispatch()
        silent = self._silent(wanted)
        for branch in silent:
            rows = np.flatnonzero(self._open)
            nothing = np.full((len(rows), self.networks.classes), np.nan, dtype=np.float32)
            yield self._tell(rows, branch, nothing)
        if silent:
            return
        event = self._next()
        if event is not None:
            task, rows, probs = event
            self._said[task.exit, task.learner, rows] = ~np.isnan(probs).any(axis=1)
            mine = self._open[rows]
            if mine.any():
                yield self._tell(rows[mine], task.exit * len(self._missed) + task.learner, probs[mine])

    def close(self) -> None:
        """End what still runs."""
        self.crew.end(self)

    @property
    def ran(self) -> Array:
        """``[E, K]`` how many samples each branch processed on the way to a vote, whether or not it was waited for."""
        ran: Array = self._said
        if self.networks.chained:
            ran = np.logical_or.accumulate(ran[::-1], axis=0)[::-1]
        return np.where(self.networks.present, ran.sum(axis=2), 0)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What failed, by learner."""
        lost = self._processed - self.ran
        return tuple(
            Fault(k, e, reason, int(self._missed[k].sum()), tuple(lost[:, k].tolist()))
            for k, (e, reason) in sorted(self._faults.items())
        )

    def offers(self) -> Iterable[Offer]:
        """Learners that could go on."""
        for k, lane in self._lanes.items():
            if not lane.gone and lane.task is None:
                yield Offer(not lane.wanted, self._costs[lane.exit][k], k)

    def take(self, learner: int) -> Task:
        """Go on with one."""
        lane = self._lanes[learner]
        state = partial(_state, self.networks, self.inputs, learner, lane.rows, lane.state, lane.at)
        lane.task = Task(self, learner, lane.exit, len(lane.rows), state, lane.wanted)
        return lane.task

    def done(self, task: Task, outcome: tuple[State, Array] | BaseException) -> None:
        """A worker brings what came of a branch."""
        lane = self._lanes[task.learner]
        lane.task = None
        if lane.gone or (isinstance(outcome, Stopped) and task.repeat):
            return
        if isinstance(outcome, BaseException):
            lane.gone = True
            self._events.put((task, lane.rows, outcome))
            return
        state, probs = outcome
        lane.state, lane.at, lane.exit = state if self.networks.chained else None, None, lane.exit + 1
        lane.gone = lane.exit == len(self._told)
        self._events.put((task, lane.rows, probs))

    def _want(self, wanted: Array) -> None:
        """Note what is wanted; decided rows leave the batches; who is overdue is left behind."""
        self._open = wanted >= 0
        learners = set((wanted[self._open] % len(self._missed)).tolist())
        overdue, _ = self.crew.overdue(self._patience)
        for k, lane in self._lanes.items():
            lane.wanted = k in learners
            if lane.task is not None:
                lane.task.wanted = lane.wanted
            if lane.gone:
                continue
            if k in overdue:
                self._fail(k, lane.exit, "it was told to stop and has not come back")
            elif lane.task is None:
                self._thin(lane)

    def _thin(self, lane: Lane) -> None:
        keep = self._open[lane.rows]
        if not keep.all():
            at = np.flatnonzero(keep)
            lane.rows, lane.at = lane.rows[at], at if lane.at is None else lane.at[at]
            lane.gone = not len(at)

    def _silent(self, wanted: Array) -> list[int]:
        """Wanted branches from which nothing will come."""
        found = []
        for branch in sorted(set(wanted.tolist()) - {DECIDED}):
            e, k = divmod(branch, len(self._missed))
            lane = self._lanes.get(k)
            never = lane is None or not self.networks.present[e, k] or self._told[e, k]
            if never or (k in self._faults and lane is not None and lane.gone and lane.exit <= e):
                found.append(branch)
        return found

    def _next(self) -> tuple[Task, Array, Array] | None:
        """What arrives next; None when the time is up, or somebody was left behind."""
        while not self._deadline.passed():
            with self.crew.lock:
                overdue, rest = self.crew.overdue(self._patience)
            if any(k in overdue and not self._lanes[k].gone for k in self._lanes):
                return None
            left = min(self._deadline.left, GLANCE if rest is None else rest, GLANCE)
            try:
                task, rows, result = self._events.get(timeout=max(left, 0.0))
            except queue.Empty:
                continue
            self._processed[task.exit, task.learner] += task.size
            if isinstance(result, Refused):
                raise result.reason
            if not isinstance(result, BaseException):
                return task, rows, result
            self._fail(task.learner, task.exit, f"{type(result).__name__}: {result}")
            return None
        return None

    def _fail(self, k: int, e: int, reason: str) -> None:
        """A learner takes no further part in this call."""
        lane = self._lanes[k]
        lane.gone, lane.exit = True, e
        self._faults.setdefault(k, (e, reason))

    def _tell(self, rows: Array, branch: int, probs: Array) -> tuple[Array, int, Array]:
        """Write down what is told."""
        e, k = divmod(branch, len(self._missed))
        nothing = np.isnan(probs).any(axis=1).reshape(-1)
        self._told[e, k] = True
        self.arrival[self._position[rows], rows] = branch
        self._position[rows] += 1
        if nothing.any():
            probs = np.where(nothing[:, None], np.nan, probs)
            self.absent[e, k, rows] = nothing
            if self.networks.present[e, k]:
                self._missed[k, rows[nothing]] = True
                self._faults.setdefault(k, (e, "it gave NaN"))
        return rows, branch, probs


class Refused(Exception):  # noqa: N818 - carries another one to the caller's thread
    """The inputs of the call are not what a learner reads: the caller's mistake, not the learner's."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _state(networks: Networks, inputs: Any, learner: int, rows: Array, state: State, at: Array | None) -> State:
    """What a branch reads: the inputs where there is no state yet, some rows of the state, or all of it."""
    if state is not None:
        return state if at is None else networks.take(state, at)
    try:
        return networks.first(learner, inputs, rows)
    except Exception as error:
        raise Refused(error) from error
