"""Learners of torch behind the interface of networks: folded, in evaluation, channels last, without gradients.

Shapes: ``E`` exits, ``K`` learners, ``n`` samples, ``C`` classes.
This file does not know sources or policies.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from quorate.engine.folding import fold
from quorate.engine.inputs import Prepared
from quorate.engine.networks import Array, State, softmax
from quorate.nets.learner import Learner, align

__all__ = ["TorchNetworks"]


class TorchNetworks:
    """A snapshot of learners that runs them branch by branch; training them further does not change it.

    Args:
        learners: in the order of the committee, aligned at their last exit.
        device: where they run.
        folded: whether batch norms are folded into convolutions.
        compiled: whether each branch goes through ``torch.compile``, for any batch size.

    Raises:
        ValueError: for learners of different classes, or chained ones beside cascades.

    Example:
        >>> from quorate.engine.inputs import prepare
        >>> from quorate.nets import cascade
        >>> networks = TorchNetworks([cascade([nn.Linear(4, 3), nn.Linear(4, 3)])])
        >>> state = networks.first(0, prepare(torch.zeros(2, 4), [None]), np.arange(2))
        >>> networks.run(0, 0, state)[1].shape
        (2, 3)
    """

    def __init__(
        self,
        learners: Sequence[Learner],
        *,
        device: str | torch.device = "cpu",
        folded: bool = True,
        compiled: bool = False,
    ) -> None:
        """See the class."""
        if bad := [one for one in learners if not isinstance(one, Learner)]:
            raise TypeError(f"a committee is made of learners, got {type(bad[0]).__name__}; cascade([model]) makes one")
        deep = {one.chained for one in learners if one.num_exits > 1}
        if len(deep) > 1:
            raise ValueError("learners of one committee must all carry features on or all be cascades of whole models")
        self.device = torch.device(device)
        self._learners = [self._snapshot(one, folded) for one in learners]
        self._branches = [[b if b is None else _compiled(b, compiled) for b in row] for row in align(self._learners)]
        self.present = np.array([[branch is not None for branch in row] for row in self._branches])
        self.classes = self._learners[0].classes
        self.chained = deep != {False}

    backend = "torch"

    @property
    def threads(self) -> int:
        """Those of torch itself, whatever they are now."""
        return torch.get_num_threads()

    def _snapshot(self, learner: Learner, folded: bool) -> Learner:
        mine = copy.deepcopy(learner).eval().requires_grad_(False).to(self.device)
        if folded:
            fold(mine)
        return mine.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def first(self, learner: int, inputs: Prepared, rows: Array) -> State:
        """The samples' inputs, on the device."""
        given: Any = inputs.of(learner, rows)
        if isinstance(given, dict):
            given = {name: self._sent(x) for name, x in given.items()}
        else:
            given = tuple(self._sent(x) for x in given) if isinstance(given, tuple) else self._sent(given)
        return self._learners[learner].first_state(given)

    def branch(self, learner: int, exit: int) -> nn.Module:
        """The module of one branch, folded and in evaluation."""
        branch: nn.Module | None = self._branches[exit][learner]
        if branch is None:
            raise ValueError(f"learner {learner} has no branch at exit {exit}")
        return branch

    def run(self, learner: int, exit: int, state: State) -> tuple[State, Array]:
        """One branch, in evaluation, without gradients."""
        branch = self.branch(learner, exit)
        with torch.inference_mode():
            *carried, logits = branch(*state)
        return tuple(carried), softmax(logits.float().cpu().numpy())

    def take(self, state: State, rows: Array) -> State:
        """Some rows of every tensor, in the memory format that it has."""
        index = torch.from_numpy(rows).to(self.device)
        with torch.inference_mode():
            return tuple(_rows(x, index) for x in state)

    def join(self, states: list[State]) -> State:
        """The rows of all, one after the other."""
        with torch.inference_mode():
            return tuple(torch.cat(parts) for parts in zip(*states, strict=True))

    def _sent(self, array: Array) -> Tensor:
        tensor = torch.from_numpy(array if array.flags.writeable else array.copy()).to(self.device)
        return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _rows(x: Tensor, index: Tensor) -> Tensor:
    if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
        return x.permute(0, 2, 3, 1)[index].permute(0, 3, 1, 2)
    return x[index]


def _compiled(branch: nn.Module, wanted: bool) -> Any:
    return torch.compile(branch, dynamic=True) if wanted else branch
