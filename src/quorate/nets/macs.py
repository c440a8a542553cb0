"""Multiply-accumulates per branch, heads included (paper, section 5, "MACs").

Convolutions, linear layers and matrix products count, attention among them; norms, activations and pools do not. The
framework's flop counter is halved. Nothing is computed: the count runs on tensors that have shapes but no numbers.

This file does not know what a network is made of, nor which costs a rule makes of the counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from quorate.nets.learner import Inputs, Learner, align

__all__ = ["count_macs", "macs_table"]


def count_macs(learner: Learner, sample: Sequence[int] | Inputs) -> tuple[int, ...]:
    """Count what each branch costs for one sample, its head included.

    Args:
        learner: any learner; it is not run, and its weights may be absent (on the ``meta`` device).
        sample: the shape of one input without the batch, such as ``(3, 32, 32)``, or a tensor, or a tuple or dict of
            tensors, with samples first (their number does not matter).

    Returns:
        One count per branch: what that branch adds. In a cascade each branch is a whole model.

    Raises:
        ValueError: if the learner cannot read such an input.

    Example:
        >>> from quorate.nets import DARTS_V2, DartsLearner, count_macs
        >>> count_macs(DartsLearner(DARTS_V2, channels=36, cells=20, classes=10), (3, 32, 32))
        (193428288, 180823680, 154115712)
    """
    if not isinstance(learner, Learner):
        raise TypeError(
            f"learner must be a Learner, got {type(learner).__name__}; cascade([model]) makes one of a model"
        )
    with torch.no_grad():
        state: Sequence[Tensor] = learner.first_state(_without_numbers(sample))
        counts = []
        for branch in learner.branches:
            count, (*state, _) = _count(branch, state)
            counts.append(count)
    return tuple(counts)


def macs_table(learners: Sequence[Learner], sample: Sequence[int] | Inputs) -> npt.NDArray[np.float64]:
    """The costs of a committee: ``[E, K]``, aligned at the last exit; a branch that is absent costs nothing.

    Example:
        >>> import torch
        >>> from quorate.nets import cascade, macs_table
        >>> one, two = torch.nn.Linear(4, 3), torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Linear(5, 3))
        >>> macs_table([cascade([one]), cascade([one, two])], (4,)).tolist()
        [[0.0, 12.0], [12.0, 35.0]]
    """
    table = np.zeros((len(align(learners)), len(learners)))
    for k, learner in enumerate(learners):
        counts = count_macs(learner, sample)
        table[len(table) - len(counts) :, k] = counts
    return table


def _count(branch: nn.Module, state: Sequence[Tensor]) -> tuple[int, tuple[Tensor, ...]]:
    """Count one branch in evaluation, on a batch of one."""
    tensors = {
        name: torch.empty_like(t, device="meta")
        for name, t in (*branch.named_parameters(remove_duplicate=False), *branch.named_buffers(remove_duplicate=False))
    }
    modes = {module: module.training for module in branch.modules()}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    counter = FlopCounterMode(display=False, custom_mapping=_MORE)
    try:
        branch.eval()
        with counter, _NoNumbers():  # type: ignore[no-untyped-call]
            out = functional_call(branch, tensors, tuple(state), tie_weights=False)
    except (RuntimeError, IndexError, TypeError) as error:
        shapes = [tuple(tensor.shape) for tensor in state]
        raise ValueError(
            f"the learner cannot read such an input: a branch that is given tensors of shape {shapes}, batch first, "
            f"fails: {error}"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, mode in modes.items():
            module.training = mode
    return counter.get_total_flops() // 2, out


def _vector_product(matrix: Sequence[int], vector: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * matrix[0] * matrix[1]


def _vector_sum_product(_: Any, matrix: Sequence[int], vector: Sequence[int], *__: Any, **___: Any) -> int:
    return 2 * matrix[0] * matrix[1]


def _dot(one: Sequence[int], two: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * one[0]


def _trilinear(x: Sequence[int], w: Sequence[int], y: Sequence[int], *_: Any, **__: Any) -> int:
    """``z[b, o] = sum_i x[b, i] sum_j w[o, i, j] y[b, j]``: the inner sums, and the outer one."""
    outputs, i, j = w
    return 2 * x[0] * outputs * i * (j + 1)


_MORE = {
    torch.ops.aten.mv: _vector_product,
    torch.ops.aten.addmv: _vector_sum_product,
    torch.ops.aten.dot: _dot,
    torch.ops.aten._trilinear: _trilinear,
}
"""Products that the framework's counter leaves out."""


class _NoNumbers(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Send whatever a network makes on its way, masks and positions, to the device without numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = torch.device("meta")

        def moved(value: Any) -> Any:
            return torch.empty_like(value, device="meta") if isinstance(value, Tensor) and not value.is_meta else value

        return func(*tree_map(moved, args), **tree_map(moved, kwargs))


def _without_numbers(sample: Sequence[int] | Inputs) -> Inputs:
    def one(x: Tensor) -> Tensor:
        return torch.empty((1, *x.shape[1:]), dtype=x.dtype, device="meta")

    if isinstance(sample, Tensor):
        return one(sample)
    if isinstance(sample, Mapping):
        return {name: one(x) for name, x in sample.items()}
    if not isinstance(sample, Sequence) or isinstance(sample, str):
        raise TypeError(f"an input must be a shape such as (3, 32, 32), or tensors, got {sample!r}")
    if all(isinstance(x, Tensor) for x in sample):
        return tuple(one(x) for x in sample if isinstance(x, Tensor))
    if not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sample):
        raise ValueError(f"the shape of an input must be positive integers without the batch, got {sample!r}")
    return torch.empty((1, *(int(side) for side in sample if isinstance(side, int))), device="meta")
