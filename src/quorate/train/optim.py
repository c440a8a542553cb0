"""How weights move: SGD, its cosine, its parameter groups, and the moving average of the weights.

METHOD: final training. SGD with momentum 0.9 and weight decay 3e-4, 0.025 down to 0.001 along a cosine.

This file does not know data, losses or devices.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from quorate.nets import Learner

__all__ = [
    "average_decay_at",
    "averaged",
    "hold_backbone",
    "learning_rate_at",
    "make_optimiser",
    "parameter_groups",
]


def learning_rate_at(step: int, steps: int, rate: float, final_rate: float) -> float:
    """``final + (rate - final) * (1 + cos(pi * step / steps)) / 2``.

    Args:
        step: from 0 to ``steps``.
        steps: of the whole training.
        rate: at the beginning.
        final_rate: at the end.

    Note:
        The original code changes the rate once an epoch. We change it each step: the same curve over 600 epochs, and
        over 3 epochs one that reaches its end.

    Example:
        >>> [round(learning_rate_at(step, 4, 0.025, 0.001), 4) for step in range(5)]
        [0.025, 0.0215, 0.013, 0.0045, 0.001]
    """
    if not 0 <= step <= steps or steps < 1:
        raise ValueError(f"step must lie in [0, {steps}] and there must be at least one, got {step} of {steps}")
    return final_rate + (rate - final_rate) * (1 + math.cos(math.pi * step / steps)) / 2


def parameter_groups(learner: Learner, backbone_rate: float = 1.0, *, apart: bool = False) -> list[dict[str, Any]]:
    """The parameters that want a gradient, heads apart from the rest where their rates differ.

    A branch's head is its module ``head``; where that has no parameters, its last linear layer for the classes.

    Args:
        learner: any learner.
        backbone_rate: the rate of everything but heads, as a factor of the rate.
        apart: whether heads are a group of their own at equal rates too.

    Returns:
        Groups for an optimiser, each with its ``names``, ``params`` and ``factor``, and whether they are ``heads``.

    Raises:
        ValueError: if no parameter wants a gradient.

    Example:
        >>> from quorate.nets import cascade
        >>> body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
        >>> groups = parameter_groups(cascade([torch.nn.Sequential(body, head)]), backbone_rate=0.1)
        >>> [(group["factor"], group["names"]) for group in groups]
        [(1.0, ['branches.0.model.1.weight', 'branches.0.model.1.bias']),
         (0.1, ['branches.0.model.0.weight', 'branches.0.model.0.bias'])]
    """
    wanted = {name: p for name, p in learner.named_parameters() if p.requires_grad}
    if not wanted:
        raise ValueError("no parameter of the learner wants a gradient; call requires_grad_(True) on those to train")
    heads = {id(p) for branch in learner.branches for p in _head(branch, learner.classes)}
    kinds = {name: (1.0, apart or backbone_rate != 1) if id(p) in heads else (backbone_rate, False)
             for name, p in wanted.items()}  # fmt: skip
    return [
        {
            "names": [name for name in wanted if kinds[name] == kind],
            "params": [p for name, p in wanted.items() if kinds[name] == kind],
            "factor": kind[0],
            "heads": kind[1],
        }
        for kind in sorted(set(kinds.values()), reverse=True)
        if kind[0] > 0
    ]


def _head(branch: nn.Module, classes: int) -> list[nn.Parameter]:
    head = getattr(branch, "head", None)
    if isinstance(head, nn.Module) and (parameters := list(head.parameters())):
        return parameters
    linear = [m for m in branch.modules() if isinstance(m, nn.Linear) and m.out_features == classes]
    return list(linear[-1].parameters()) if linear else []


def make_optimiser(
    learner: Learner,
    *,
    momentum: float = 0.9,
    weight_decay: float = 3e-4,
    backbone_rate: float = 1.0,
    apart: bool = False,
) -> torch.optim.SGD:
    """SGD over :func:`parameter_groups`; the rate is set step by step, ``rate * factor``.

    Example:
        >>> from quorate.nets import cascade
        >>> len(make_optimiser(cascade([torch.nn.Linear(4, 3)])).param_groups)
        1
    """
    groups = parameter_groups(learner, backbone_rate, apart=apart)
    fused = all(p.device.type in ("cpu", "cuda") and p.is_floating_point() for g in groups for p in g["params"])
    return torch.optim.SGD(groups, lr=0.0, momentum=momentum, weight_decay=weight_decay, fused=fused)


def hold_backbone(optimiser: torch.optim.Optimizer, held: bool) -> None:
    """Whether everything but heads stands still: no gradient is computed for it, and it gathers no momentum.

    Example:
        >>> from quorate.nets import cascade
        >>> body, head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 3)
        >>> optimiser = make_optimiser(cascade([torch.nn.Sequential(body, head)]), backbone_rate=0.1)
        >>> hold_backbone(optimiser, True)
        >>> body.weight.requires_grad, head.weight.requires_grad
        (False, True)
    """
    for group in optimiser.param_groups:
        if not group["heads"]:
            for parameter in group["params"]:
                parameter.requires_grad_(not held)
                parameter.grad = None


def average_decay_at(step: int, decay: float) -> float:
    """``min(decay, (1 + step) / (10 + step))``: the average forgets where it began while it is young.

    Example:
        >>> average_decay_at(0, 0.999), average_decay_at(10**6, 0.999)
        (0.1, 0.999)
    """
    return min(decay, (1 + step) / (10 + step))


@torch.no_grad()
def averaged(average: Mapping[str, Tensor], current: Mapping[str, Tensor], decay: float) -> None:
    """``average <- decay * average + (1 - decay) * current``, in place; whole numbers are copied.

    Args:
        average: of a network's state, by name; changed.
        current: the network's state now.
        decay: in [0, 1].

    Example:
        >>> average = {"w": torch.tensor([0.0])}
        >>> averaged(average, {"w": torch.tensor([1.0])}, 0.75)
        >>> average["w"]
        tensor([0.2500])
    """
    for name, now in current.items():
        if now.is_floating_point():
            average[name].lerp_(now, 1 - decay)
        else:
            average[name].copy_(now)
