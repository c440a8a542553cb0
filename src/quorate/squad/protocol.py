"""The seam of the house: what a policy, a source and a lattice are.

A *policy* decides by ask and tell; a *source* delivers votes; the loop in :mod:`quorate.squad.loop` joins the two.
Recorded votes, a network run lazily, workers racing each other: the same policies serve them all.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples (always the last axis, except before classes), ``C`` classes,
``B = E * K`` branches; branch ``e * K + k`` is exit ``e`` of learner ``k``.

This file does not know how anybody decides, nor what a network, a batch or a device is.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeAlias

__all__ = ["DECIDED", "Array", "Lattice", "Policy", "Source", "Verdict"]

Array: TypeAlias = Any
"""A numpy array or a torch tensor: whatever :func:`quorate.squad.arrays.namespace` knows."""

DECIDED = -1
"""What :meth:`Policy.wanted` says of a sample that wants no further vote."""


class Lattice(NamedTuple):
    """All a policy may know of the committee: costs, voting order, number of classes, and where arrays live.

    Attributes:
        macs: ``[E, K]`` incremental cost of each branch, float64, always numpy.
        order: ``[E, K, 1 or N]`` the learner of each rank at each exit.
        classes: number of classes.
        like: an empty array that gives namespace, device and dtype of the probabilities.
        chained: whether a branch needs the one before it (False: branches are whole models).
    """

    macs: Array
    order: Array
    classes: int
    like: Array
    chained: bool = True


class Verdict(NamedTuple):
    """What a policy says of ``N`` samples; possible in every state, a forced answer where it had not stopped.

    Attributes:
        label: ``[N]`` class, -1 where nobody could answer.
        exit: ``[N]`` exit of the stage, or of the last vote that counted.
        confidence: ``[N]`` float64.
        probs: ``[N, C]`` the policy's own distribution.
        passed: ``[N]`` whether the policy's own test held where it stopped.
        waited: ``[E, K, N]`` the rank at which a branch was waited for, -1 if it was not.
        cast: ``[E, K, N]`` whether that branch cast a vote that counted.
        asks: ``[K]`` learners the policy may ever ask.
        pivot: ``[E, N]`` pivot rank of every settled stage, -1 elsewhere; None for a policy without stages.
        reached: ``[E, N]`` whether that stage reached its quorum; None for a policy without stages.
    """

    label: Array
    exit: Array
    confidence: Array
    probs: Array
    passed: Array
    waited: Array
    cast: Array
    asks: Array
    pivot: Array | None = None
    reached: Array | None = None


class Policy(Protocol):
    """How to decide. The state belongs to the loop, so ``tell`` may write into it and return it."""

    def start(self, n: int, lattice: Lattice) -> Any:
        """The state of ``n`` samples of which nothing is known yet."""
        ...

    def wanted(self, state: Any) -> Array:
        """``[N]``: the next branch of each open sample, or :data:`DECIDED`."""
        ...

    def tell(self, state: Any, rows: Array, branch: int, probs: Array) -> Any:
        """Take the votes ``probs`` (``[len(rows), C]``, NaN rows abstain) of one branch.

        An unasked vote counts when told; one of a deeper stage, or further along a path, waits for its turn; one
        that was told before, or of a decided sample, changes nothing.
        """
        ...

    def verdict(self, state: Any) -> Verdict:
        """The answers so far."""
        ...


class Source(Protocol):
    """Where votes come from."""

    def votes(self, wanted: Array) -> Iterable[tuple[Array, int, Array]]:
        """Yield ``(rows, branch, probs)`` so that every open sample gets at least one vote it had not."""
        ...

    @property
    def ran(self) -> Array:
        """How many samples each branch really processed, ``[E, K]``."""
        ...
