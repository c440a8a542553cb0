"""Learners: chains of branches with a head after each block (paper, section 2, Eq. 1).

``f(x) = B_b(... B_1(x))``, and exit ``i`` answers ``C_i(B_i(... B_1(x)))``.

A branch is a module ``(state tensors) -> (next state tensors, logits)``; the last one returns the logits alone. The
first state is the input: an image, or several tensors (token ids and a mask). Every state tensor has one row per
sample, so that an engine can run a branch for exactly the samples that need it.

This file does not know what is inside a branch, nor who decides which one runs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from torch import Tensor, nn

__all__ = ["Inputs", "Learner", "align", "check_count"]

Inputs: TypeAlias = Tensor | Sequence[Tensor] | Mapping[str, Tensor]
"""What a learner reads: a tensor, several, or several by name."""


class Learner(nn.Module):
    """A network with an exit after every branch.

    Args:
        branches: in order; each is called with the state tensors.
        classes: number of classes.
        chained: whether a branch reads what the one before it gave (False: each is a whole model that reads the input).
        inputs: names of the tensors of the first state, for inputs given by name.

    Attributes:
        branches: one module per exit.
        classes: number of classes.
        chained: as given.
        origin: how a program can build it again, as JSON can say it; None where only its author can.

    Raises:
        ValueError: if there is no branch, or fewer than two classes.

    Example:
        >>> import torch
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner = DartsLearner(DARTS_V2, channels=4, cells=4, classes=10).eval()
        >>> x = torch.randn(2, 3, 16, 16)
        >>> state, logits = (x,), []
        >>> for branch in learner.branches:
        ...     *state, vote = branch(*state)
        ...     logits.append(vote)
        >>> all(torch.equal(a, b) for a, b in zip(logits, learner(x)))
        True
    """

    def __init__(
        self,
        branches: Sequence[nn.Module],
        classes: int,
        *,
        chained: bool = True,
        inputs: Sequence[str] | None = None,
    ) -> None:
        super().__init__()
        if not branches:
            raise ValueError("a learner must have at least one branch, got none")
        check_count("classes", classes, 2)
        self.branches = nn.ModuleList(branches)
        self.classes = classes
        self.chained = chained
        self.inputs = None if inputs is None else tuple(inputs)
        self.origin: dict[str, Any] | None = None

    @property
    def num_exits(self) -> int:
        """How many exits there are: one per branch."""
        return len(self.branches)

    def first_state(self, inputs: Inputs) -> tuple[Tensor, ...]:
        """The input as the state tensors that the first branch reads.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> learner = cascade([torch.nn.Linear(4, 3)], classes=3)
            >>> len(learner.first_state(torch.zeros(2, 4)))
            1
        """
        if isinstance(inputs, Tensor):
            return (inputs,)
        if not isinstance(inputs, Mapping):
            return tuple(inputs)
        if self.inputs is None or set(inputs) != set(self.inputs):
            wanted = "a tensor or a tuple of tensors" if self.inputs is None else ", ".join(self.inputs)
            raise ValueError(f"this learner reads {wanted}, got tensors named {', '.join(map(str, inputs))}")
        return tuple(inputs[name] for name in self.inputs)

    def forward(self, inputs: Inputs, *more: Tensor) -> tuple[Tensor, ...]:
        state: Sequence[Tensor] = (*self.first_state(inputs), *more)
        logits = []
        for branch in self.branches:
            *state, vote = branch(*state)
            logits.append(vote)
        return tuple(logits)


def check_count(name: str, value: int, least: int = 1) -> None:
    """Check a number of things.

    Raises:
        ValueError: if it is not a whole number, or too small.

    Example:
        >>> from quorate.nets.learner import check_count
        >>> check_count("classes", 1, least=2)
        Traceback (most recent call last):
        ValueError: classes must be at least 2, a whole number, got 1
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be at least {least}, a whole number, got {value!r}")


def align(learners: Sequence[Learner]) -> list[tuple[nn.Module | None, ...]]:
    """The branches of a committee as a lattice: per exit one entry per learner, aligned at the last exit.

    A learner with fewer exits than another has no branch (None) at the first ones: it is absent there.

    Raises:
        ValueError: if there is no learner, or they differ in the number of classes.

    Example:
        >>> import torch
        >>> from quorate.nets import align, cascade
        >>> one, two = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
        >>> lattice = align([cascade([one]), cascade([one, two])])
        >>> [[branch is not None for branch in row] for row in lattice]
        [[False, True], [True, True]]
    """
    if not learners:
        raise ValueError("a committee must have at least one learner, got none")
    classes = {learner.classes for learner in learners}
    if len(classes) > 1:
        raise ValueError(f"the learners of a committee must have the same classes, got {sorted(classes)}")
    exits = max(learner.num_exits for learner in learners)
    columns = [(None,) * (exits - learner.num_exits) + tuple(learner.branches) for learner in learners]
    return list(zip(*columns, strict=True))
