"""How far each learner has come with the only sample of a call: Progress in plain numbers, in a quarter of its time.

By test the two tell the same.

Shapes: ``E`` exits, ``K`` learners, ``C`` classes; one sample.
This file does not know which votes are wanted next, nor what they are for.
"""

from typing import Any

import numpy as np

from quorate.engine.networks import Array, Networks, State, checked
from quorate.engine.progress import Fault

__all__ = ["Single"]

ROW = np.zeros(1, dtype=np.int64)


class Single:
    """The learners of one call with one sample.

    Args:
        networks: who runs.
        inputs: what :meth:`Networks.first` reads.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> single = Single(RecordedNetworks(np.full((2, 1, 1, 2), 0.5)), None)
        >>> single.advance(0, 1, ROW)
        array([[0.5, 0.5]])
        >>> single.ran.tolist()
        [[1], [1]]
    """

    def __init__(self, networks: Networks, inputs: Any) -> None:
        """See the class."""
        self.networks, self.inputs = networks, inputs
        num_exits, num_learners = networks.present.shape
        self._present: list[list[bool]] = networks.present.tolist()
        self._processed = [[0] * num_learners for _ in range(num_exits)]
        self._stands: dict[int, tuple[int, State]] = {}
        self._said: dict[tuple[int, int], Array] = {}
        self._asked: set[tuple[int, int]] = set()
        self._missed: set[int] = set()
        self._first_fault: dict[int, tuple[int, str]] = {}
        self._dead: set[int] = set()

    def advance(self, k: int, e: int, rows: Array) -> Array:
        """``[1, C]``: what branch ``(e, k)`` says, run now where it was not; NaN where nothing comes of it."""
        if not self._present[e][k]:
            return self._nothing()
        said = self._said.get((e, k))
        if k not in self._dead:
            if said is None:
                self._walk(k, e)
                said = self._said.get((e, k))
            elif not self.networks.chained and said[0, 0] != said[0, 0]:
                self._run(k, e, self.networks.first(k, self.inputs, ROW))
                said = self._said[e, k]
        return self._heard(k, e, said)

    def forget(self, open_: Array) -> None:
        """Drop the states, once the sample is decided."""
        if not open_[0]:
            self._stands.clear()

    @property
    def processed(self) -> Array:
        """``[E, K]`` how often each branch ran, whatever came of it."""
        return np.array(self._processed, dtype=np.int64)

    @property
    def held(self) -> int:
        """How many rows of states are in memory."""
        return len(self._stands)

    @property
    def ran(self) -> Array:
        """``[E, K]`` whether each branch ran on the way to a vote that was given."""
        ran = np.zeros((len(self._present), len(self._present[0])), dtype=np.int64)
        for e, k in self._asked:
            ran[0 if self.networks.chained else e : e + 1, k] = 1
        return ran * self.networks.present

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What failed, by learner."""
        if not self._first_fault:
            return ()
        lost = self.processed - self.ran
        return tuple(
            Fault(k, e, reason, int(k in self._missed), tuple(lost[:, k].tolist()))
            for k, (e, reason) in sorted(self._first_fault.items())
        )

    def _walk(self, k: int, e: int) -> None:
        """Take the sample from where it stands through exit ``e``."""
        if not self.networks.chained:
            self._run(k, e, self.networks.first(k, self.inputs, ROW))
            return
        if k in self._stands:
            at, state = self._stands.pop(k)
        else:
            at = [row[k] for row in self._present].index(True)
            state = self.networks.first(k, self.inputs, ROW)
        for d in range(at, e + 1):
            state = self._run(k, d, state)
            if k in self._dead:
                return
        if e + 1 < len(self._present):
            self._stands[k] = e + 1, state

    def _run(self, k: int, e: int, state: State) -> State:
        self._processed[e][k] += 1
        try:
            state, probs = checked(self.networks.run(k, e, state), 1, self.networks.classes)
        except Exception as error:  # noqa: BLE001 - whatever a learner raises, the others can still decide
            self._dead.add(k)
            self._first_fault.setdefault(k, (e, f"{type(error).__name__}: {error}"))
            return None
        self._said[e, k] = probs
        return state

    def _heard(self, k: int, e: int, said: Array | None) -> Array:
        """Note what was said, and what was not."""
        if said is not None:
            total = float(said.sum())
            if total == total:
                self._asked.add((e, k))
                return said
        self._asked.discard((e, k))
        self._missed.add(k)
        self._first_fault.setdefault(k, (e, "it gave NaN"))
        return self._nothing() if said is None else np.full_like(said, np.nan)

    def _nothing(self) -> Array:
        return np.full((1, self.networks.classes), np.nan, dtype=np.float32)
