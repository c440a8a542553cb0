"""Workers: a few threads that run branches for calls, what is wanted first, and that can be told to stop.

A crew outlives its calls. It runs at most so many branches at once, never two of one learner. A thread whose branch was
told to stop counts no more: another one takes its place, so that a branch that never returns costs its learner alone.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples of a branch, ``C`` classes.
This file does not know who decides, nor what a vote is for.
"""

import atexit
import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from quorate.engine.networks import Array, Networks, State, Stop, Stoppable, Stopped, checked

__all__ = ["Call", "Crew", "Offer", "Stops", "Task"]

Inbox = queue.SimpleQueue[Any]
clock = time.perf_counter
RECENT = 1000
LEAVING = 2.0  # seconds that a process waits at its end for branches that were told to stop


class Stops:
    """What stopping brought, since the crew began.

    Attributes:
        stopped: how many branches were ended in the middle.
        saved_ms: what was left of them, by what such a branch took before where that is known.
        freed_ms: of the latest thousand, how long after the request its worker was free again.
    """

    def __init__(self) -> None:
        """See the class."""
        self.stopped, self.saved_ms, self.freed_ms = 0, 0.0, deque[float](maxlen=RECENT)
        self._usual: dict[tuple[int, int, int], float] = {}

    def ran(self, task: "Task", seconds: float) -> None:
        """A branch came to its end."""
        place, each = self._place(task), seconds / max(task.size, 1)
        before = self._usual.get(place, each)
        self._usual[place] = 0.8 * before + 0.2 * each

    def ended(self, task: "Task", told: float, began: float, now: float) -> None:
        """A branch was ended in the middle."""
        self.stopped += 1
        self.freed_ms.append(1e3 * (now - told))
        usual = self._usual.get(self._place(task), 0.0) * task.size
        self.saved_ms += 1e3 * max(0.0, usual - (now - began))

    @staticmethod
    def _place(task: "Task") -> tuple[int, int, int]:
        return task.learner, task.exit, task.size.bit_length()  # batches of like sizes take like times for each sample


class Task:
    """One branch for some samples of one call.

    Args:
        call: who wants to hear of it.
        learner: of the branch.
        exit: of the branch.
        size: number of samples.
        state: makes what the branch reads; called by the worker.
        wanted: whether a sample waits for it.
    """

    __slots__ = ("began", "call", "exit", "learner", "repeat", "size", "state", "stop", "told", "wanted")

    def __init__(
        self, call: "Call", learner: int, exit: int, size: int, state: Callable[[], State], wanted: bool
    ) -> None:
        """See the class."""
        self.call, self.learner, self.exit, self.size, self.state = call, learner, exit, size, state
        self.wanted, self.repeat, self.stop = wanted, False, Stop()
        self.began, self.told = 0.0, 0.0

    def run(self, networks: Networks) -> "tuple[State, Array] | BaseException":
        """What the branch gives, or what is wrong with it; nothing that a learner raises ends the thread."""
        self.began = clock()
        try:
            state = self.state()
            if isinstance(networks, Stoppable):
                given = networks.run_until(self.learner, self.exit, state, self.stop)
            elif self.stop.requested:
                raise Stopped
            else:
                given = networks.run(self.learner, self.exit, state)
            return checked(given, self.size, networks.classes)
        except BaseException as error:  # noqa: BLE001 - an exit in a thread would be heard by nobody
            return error


class Offer(NamedTuple):
    """A branch that could run now; the least comes first."""

    unwanted: bool
    cost: float
    learner: int


class Call(Protocol):
    """One call of a committee, as a crew sees it. Every method is called with the crew's lock held."""

    def offers(self) -> Iterable[Offer]:
        """What could run now."""
        ...

    def take(self, learner: int) -> Task:
        """The task of an offer, which runs from now on."""
        ...

    def done(self, task: Task, outcome: tuple[State, Array] | BaseException) -> None:
        """What came of a task; not said of a call that has ended."""
        ...


class Crew:
    """Threads that run the branches of some networks.

    Args:
        networks: who runs.
        size: how many branches at once.

    Attributes:
        patience: seconds after which a learner that was told to stop and has not come back is left behind.
        stops: what stopping brought.
        lock: held while calls and crew look at each other.
    """

    def __init__(self, networks: Networks, size: int) -> None:
        """See the class."""
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"workers must be at least 1, got {size!r}")
        self.networks, self.size, self.patience, self.stops = networks, size, 1.0, Stops()
        self._kept = max(size, int(networks.present.shape[1]))  # each learner may have a thread that is on its way out
        self._muster()
        _CREWS.add(self)

    def _muster(self) -> None:
        """Begin without threads and calls."""
        self.lock = threading.Lock()
        self._calls: list[Call] = []
        self._busy: dict[int, Task] = {}
        self._idle: list[Inbox] = []
        self._home: dict[int, Inbox] = {}
        self._inboxes: dict[Inbox, threading.Thread] = {}
        weakref.finalize(self, _dismiss, self._inboxes).atexit = False

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return len(self._inboxes)

    def begin(self, call: Call) -> None:
        """Let a call take part, and begin with it."""
        with self.lock:
            self._calls.append(call)
            self.dispatch()

    def end(self, call: Call) -> None:
        """Stop all that runs for a call."""
        with self.lock:
            if call in self._calls:
                self._calls.remove(call)
            for task in self._busy.values():
                if task.call is call and not task.told:
                    _halt(task)
            self.dispatch()

    def overdue(self, patience: float) -> tuple[set[int], float | None]:
        """Learners to leave behind, told to stop longer ago than ``patience``; and in how many seconds there is more.

        With the lock held.
        """
        now = clock()
        left = {k: task.told + patience - now for k, task in self._busy.items() if task.told}
        return {k for k, rest in left.items() if rest <= 0}, min((r for r in left.values() if r > 0), default=None)

    def dispatch(self) -> None:
        """Set idle workers to what is wanted most, of the oldest call first. With the lock held."""
        for call in self._calls:
            for offer in sorted(call.offers()):
                if offer.learner in self._busy:
                    continue
                inbox = self._worker(offer.learner)
                if inbox is None and not offer.unwanted and self._make_room(call):
                    inbox = self._worker(offer.learner)
                if inbox is None:
                    break
                self._home[offer.learner] = inbox
                task = self._busy[offer.learner] = call.take(offer.learner)
                inbox.put(task)

    def _worker(self, learner: int) -> Inbox | None:
        """An idle worker, or a new one where fewer branches run than may; if possible the learner's last one.

        What a learner's branches write stays in the cache of a core; fetched by another it costs as much as a branch.
        """
        if sum(not task.told for task in self._busy.values()) >= self.size:
            return None
        if self._idle:
            home = self._home.get(learner)
            others = [inbox for inbox in self._idle if inbox not in self._home.values()]
            inbox = home if home in self._idle else (others or self._idle)[-1]
            self._idle.remove(inbox)
            return inbox
        inbox = queue.SimpleQueue()
        thread = threading.Thread(
            target=_work, args=(inbox, self.networks, weakref.ref(self)), name="quorate-worker", daemon=True
        )
        thread.start()  # before it counts: one that the system refuses is not waited for at the end
        self._inboxes[inbox] = thread
        return inbox

    def _make_room(self, call: Call) -> bool:
        """End a branch that nobody waits for, to be repeated; True where one was."""
        if not isinstance(self.networks, Stoppable):
            return False
        for task in self._busy.values():
            if task.call is call and not (task.wanted or task.told):
                task.repeat = True
                _halt(task)
                return True
        return False

    def finished(self, inbox: Inbox, task: Task, outcome: tuple[State, Array] | BaseException) -> bool:
        """Hear of a task from its worker; whether that one shall stay."""
        now = clock()
        with self.lock:
            del self._busy[task.learner]
            if not isinstance(outcome, BaseException):
                self.stops.ran(task, now - task.began)
            elif isinstance(outcome, Stopped) and task.told:
                self.stops.ended(task, task.told, task.began, now)
            stays: bool = len(self._idle) < self._kept
            if stays:
                self._idle.append(inbox)
            else:
                self._inboxes.pop(inbox, None)
            if task.call in self._calls:
                task.call.done(task, outcome)
            if task.told or len(self._calls) > 1:
                self.dispatch()
            return stays


def _halt(task: Task) -> None:
    task.told = clock()
    task.stop.request()


def _work(inbox: Inbox, networks: Networks, crew_of: "weakref.ref[Crew]") -> None:
    """A worker's life; it keeps no crew alive while it waits."""
    while (task := inbox.get()) is not None:
        outcome = task.run(networks)
        crew = crew_of()
        if crew is None or not crew.finished(inbox, task, outcome):
            return
        del crew, task, outcome


def _dismiss(inboxes: dict[Inbox, threading.Thread]) -> None:
    for inbox in list(inboxes):
        inbox.put(None)


_CREWS: "weakref.WeakSet[Crew]" = weakref.WeakSet()


def _forked() -> None:
    """A child process has its parent's crews, and none of their threads."""
    for crew in list(_CREWS):
        crew._muster()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@atexit.register
def _leave() -> None:
    """Let branches end before the interpreter does: a runtime that returns into one that is gone aborts the process."""
    until = clock() + LEAVING
    for crew in list(_CREWS):
        with crew.lock:
            for task in crew._busy.values():
                if not task.told:
                    _halt(task)
            threads = list(crew._inboxes.values())
            _dismiss(crew._inboxes)
        for thread in threads:
            thread.join(max(0.0, until - clock()))
