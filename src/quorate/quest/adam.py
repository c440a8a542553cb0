"""Adam for a table of logits, as a pure step: what moves ``log alpha`` and ``phi``.

Shapes: any; all tensors have that of the parameters.

This file does not know what the parameters mean, nor where gradients come from.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["State", "init", "update"]


class State(NamedTuple):
    """Parameters, their averages, and how many steps were made (a tensor: a recorded step counts on)."""

    value: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor


def init(value: Tensor) -> State:
    """Parameters that have not moved yet.

    Example:
        >>> init(torch.ones(2)).steps
        tensor(0.)
    """
    zero = torch.zeros_like(value)
    return State(value.clone(), zero, zero.clone(), torch.zeros((), dtype=value.dtype, device=value.device))


def update(
    state: State, gradient: Tensor, *, rate: float, betas: tuple[float, float] = (0.9, 0.999), weight_decay: float = 0.0
) -> State:
    """One step of Adam with its weight decay in the gradient, as the original has it.

    Note:
        A step moves a parameter by ``rate`` at most, or hardly more: with the paper's 3e-4 a logit moves by 0.3 in a
        thousand steps. Short searches need a larger rate.

    Example:
        >>> update(init(torch.zeros(1)), torch.tensor([5.0]), rate=0.1).value
        tensor([-0.1000])
    """
    g = gradient + weight_decay * state.value
    steps = state.steps + 1
    mean = betas[0] * state.mean + (1 - betas[0]) * g
    square = betas[1] * state.square + (1 - betas[1]) * g.square()
    m_hat, s_hat = mean / (1 - betas[0] ** steps), square / (1 - betas[1] ** steps)
    return State(state.value - rate * m_hat / (s_hat.sqrt() + 1e-8), mean, square, steps)
