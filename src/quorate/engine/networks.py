"""What a source may ask of networks, whoever runs them: torch, ONNX Runtime, or a table of recorded votes.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples of a call, ``C`` classes. A *state* is whatever a backend carries
from one branch to the next, one row per sample; only the backend looks into it.

This file does not know who decides which branch runs, nor what a branch is made of.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

__all__ = ["Array", "Networks", "State", "Stop", "Stoppable", "Stopped", "checked", "softmax"]

Array: TypeAlias = np.ndarray[Any, Any]
State: TypeAlias = Any


class Networks(Protocol):
    """``K`` learners as branches that run separately. Shared by all calls and threads, so nothing here may change.

    Attributes:
        present: ``[E, K]`` which branches exist; a learner with fewer exits lacks the first ones.
        classes: ``C``.
        chained: whether a branch reads what the one before it gave (False: each reads the input).
        backend, device, threads: who runs them (by the name that ``load`` knows), where, and how many threads each
            branch may use: what measured times belong to.
    """

    @property
    def present(self) -> Array:
        """See the class."""
        ...

    @property
    def classes(self) -> int:
        """See the class."""
        ...

    @property
    def chained(self) -> bool:
        """See the class."""
        ...

    @property
    def backend(self) -> str:
        """See the class."""
        ...

    @property
    def device(self) -> Any:
        """See the class."""
        ...

    @property
    def threads(self) -> int:
        """See the class."""
        ...

    def first(self, learner: int, inputs: Any, rows: Array) -> State:
        """What the first branch of a learner reads, for some rows of the ``inputs`` of this call."""
        ...

    def run(self, learner: int, exit: int, state: State) -> tuple[State, Array]:
        """Run one branch: the next state, and probabilities ``[n, C]`` in main memory."""
        ...

    def take(self, state: State, rows: Array) -> State:
        """Some rows of a state."""
        ...

    def join(self, states: list[State]) -> State:
        """The rows of several states, one after the other."""
        ...


class Stopped(Exception):  # noqa: N818 - not an error: what was asked for
    """A run ended early, because it was told to."""


class Stop:
    """A request to end a run, made by another thread.

    Example:
        >>> stop, heard = Stop(), []
        >>> with stop.ending(lambda: heard.append("end")):
        ...     stop.request()
        >>> stop.requested, heard
        (True, ['end'])
    """

    def __init__(self) -> None:
        """See the class."""
        self.requested = False
        self._lock = threading.Lock()
        self._end: Callable[[], None] | None = None

    def request(self) -> None:
        """End the run that is under way, or one that begins later."""
        with self._lock:
            self.requested = True
            if self._end is not None:
                self._end()

    @contextmanager
    def ending(self, end: Callable[[], None]) -> Iterator[None]:
        """While a run is under way ``end`` ends it; afterwards it is not called any more."""
        with self._lock:
            if self.requested:
                raise Stopped
            self._end = end
        try:
            yield
        except Exception as error:
            if self.requested and not isinstance(error, Stopped):
                raise Stopped from error
            raise
        finally:
            with self._lock:
                self._end = None


@runtime_checkable
class Stoppable(Protocol):
    """Networks whose branches can be ended in the middle; all others run a branch to its end."""

    def run_until(self, learner: int, exit: int, state: State, stop: Stop) -> tuple[State, Array]:
        """:meth:`Networks.run`, or :class:`Stopped` soon after the request."""
        ...


def checked(given: tuple[State, Array], n: int, classes: int) -> tuple[State, Array]:
    """What a branch gave, if that is a state and numbers for all classes.

    Example:
        >>> checked((None, np.ones((2, 3))), 2, 4)
        Traceback (most recent call last):
        ValueError: a branch must give 4 numbers for each of 2 samples, got (2, 3)
    """
    state, probs = given
    if probs.shape != (n, classes):
        raise ValueError(f"a branch must give {classes} numbers for each of {n} samples, got {probs.shape}")
    return state, probs


def softmax(logits_nC: Array) -> Array:
    """Logits as probabilities, in at least float32; a row with a NaN or an infinite largest logit is NaN throughout.

    Example:
        >>> softmax(np.array([[0.0, np.log(3.0)]])).round(2)
        array([[0.25, 0.75]])
    """
    logits_nC = logits_nC.astype(np.float32) if logits_nC.dtype.itemsize < 4 else logits_nC
    with np.errstate(invalid="ignore"):
        p_nC: Array = np.exp(logits_nC - logits_nC.max(axis=1, keepdims=True))
        p_nC /= p_nC.sum(axis=1, keepdims=True)
    return p_nC
