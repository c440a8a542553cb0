"""Recorded votes behind the interface of networks: what sources are proven with.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes.
This file does not know who asks.
"""

from typing import Any

import numpy as np

from quorate.engine.networks import Array, State

__all__ = ["RecordedNetworks"]


class RecordedNetworks:
    """Branches that look their votes up; a state is the samples' numbers and the next exit.

    Args:
        probs: ``[E, K, N, C]``.
        present: ``[E, K]`` which branches exist; None: all of them.
        chained: whether a branch needs the one before it.

    Example:
        >>> networks = RecordedNetworks(np.full((1, 1, 2, 2), 0.5))
        >>> networks.run(0, 0, networks.first(0, None, np.array([1])))[1]
        array([[0.5, 0.5]])
    """

    def __init__(self, probs: Array, present: Array | None = None, chained: bool = True) -> None:
        """See the class."""
        self.probs, self.chained, self.classes = probs, chained, probs.shape[3]
        self.present = np.ones(probs.shape[:2], dtype=bool) if present is None else present

    backend, threads = "recorded", 1

    def first(self, learner: int, inputs: Any, rows: Array) -> State:
        """The samples, before the first exit that this learner has."""
        return np.stack([rows, np.full(len(rows), int(np.argmax(self.present[:, learner])))], axis=1)

    def run(self, learner: int, exit: int, state: State) -> tuple[State, Array]:
        """What was recorded.

        Raises:
            ValueError: a chained branch was run for samples that have not come that far, or twice.
        """
        if self.chained and (state[:, 1] != exit).any():
            raise ValueError(f"branch {exit} of learner {learner} must be run once and in its turn")
        return state + np.array([0, 1]), self.probs[exit, learner, state[:, 0]]

    def take(self, state: State, rows: Array) -> State:
        """Some rows."""
        return state[rows]

    def join(self, states: list[State]) -> State:
        """One after the other."""
        return np.concatenate(states)
