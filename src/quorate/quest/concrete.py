"""Samples of architectures that gradients pass through, and estimators where they do not (paper, Eq. 15).

Shapes: ``...`` any tables and edges, ``O`` operations, last; ``S`` samples.

This file does not know networks, losses or costs.
"""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

__all__ = [
    "concrete",
    "entropy",
    "gumbel",
    "hard_choice",
    "leave_one_out",
    "log_probability",
    "score_surrogate",
    "straight_through",
    "temperature_at",
]


def temperature_at(step: int, steps: int, start: float = 1.0, end: float = 0.03) -> float:
    """The temperature of a step: it falls linearly from ``start`` to ``end``, which the last step has.

    Note:
        **[ours, after SNAS]** over the steps that are really run, so that a short search hardens its samples as a long
        one does. The paper gives no schedule.

    Example:
        >>> [round(temperature_at(step, 5), 4) for step in range(5)]
        [1.0, 0.7575, 0.515, 0.2725, 0.03]
    """
    if steps < 1 or not 0 <= step < steps:
        raise ValueError(f"step must lie in [0, {steps}), got {step}")
    return start + (end - start) * step / max(1, steps - 1)


def gumbel(like: Tensor, generator: torch.Generator) -> Tensor:
    """``G = -log(-log(U))`` with ``U`` uniform, in the shape of ``like``; drawn as ``-log`` of an exponential.

    Example:
        >>> gumbel(torch.zeros(2, 3), torch.Generator().manual_seed(0)).shape
        torch.Size([2, 3])
    """
    return -torch.empty_like(like).exponential_(generator=generator).log()


def concrete(logits: Tensor, noise: Tensor, temperature: float | Tensor) -> Tensor:
    """``Z_k = exp((log alpha_k + G_k) / lambda) / sum over l of exp((log alpha_l + G_l) / lambda)`` (Eq. 15).

    Args:
        logits: ``log alpha``, ``[..., O]``.
        noise: ``G``, of :func:`gumbel`.
        temperature: ``lambda``; a tensor may change between the runs of a recorded step.

    Example:
        >>> Z = concrete(torch.zeros(8), gumbel(torch.zeros(8), torch.Generator().manual_seed(0)), 0.03)
        >>> round(Z.sum().item(), 4), round(Z.max().item(), 2)
        (1.0, 1.0)
    """
    return ((logits + noise) / temperature).softmax(dim=-1)


def hard_choice(logits: Tensor, noise: Tensor) -> Tensor:
    """The operation of each edge of a sample, ``argmax(log alpha + G)``: what Eq. 15 tends to as its temperature falls.

    Example:
        >>> hard_choice(torch.tensor([0.0, 9.0]), torch.zeros(2))
        tensor(1)
    """
    return (logits + noise).argmax(dim=-1)


def straight_through(Z: Tensor) -> Tensor:
    """The one-hot table nearest to ``Z``, with the gradient of ``Z``.

    Note:
        Biased: the gradient is that of the mixture where ``Z`` is, the value that of a corner.

    Example:
        >>> straight_through(torch.tensor([0.2, 0.8]))
        tensor([0., 1.])
    """
    hard = F.one_hot(Z.argmax(dim=-1), Z.shape[-1]).to(Z.dtype)
    return hard + (Z - Z.detach()) if Z.requires_grad else hard  # in this order the sum is hard to the bit


def log_probability(logits: Tensor, choice: Tensor) -> Tensor:
    """``log q(choice) = sum over edges of log softmax(logits)[choice]``.

    Args:
        logits: ``[..., O]``.
        choice: ``[S, ...]``, any number of samples.

    Returns:
        ``[S]``.

    Example:
        >>> round(log_probability(torch.zeros(2, 8), torch.zeros(1, 2, dtype=torch.long)).item(), 4)
        -4.1589
    """
    log_q = logits.log_softmax(dim=-1).expand(*choice.shape, logits.shape[-1])
    return log_q.gather(-1, choice[..., None]).flatten(1).sum(dim=1)


def leave_one_out(losses_S: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """What each sample's loss is above that of the others: the baseline of one sample is the mean of the rest.

    Args:
        losses_S: a loss for each sample.
        baseline: for a single sample, where there are no others.

    Example:
        >>> leave_one_out(torch.tensor([1.0, 2.0, 6.0]))
        tensor([-3.0000, -1.5000,  4.5000])
    """
    count = len(losses_S)
    if count == 1:
        return losses_S - baseline
    return losses_S - (losses_S.sum() - losses_S) / (count - 1)


def score_surrogate(logits: Tensor, choice: Tensor, advantage_S: Tensor) -> Tensor:
    """A number whose gradient is the score function's: ``mean over samples of (L_s - b_s) * grad log q(choice_s)``.

    Unbiased for the gradient of the expected loss over hard architectures, because a baseline that does not depend on
    the sample adds nothing on average.

    Example:
        >>> logits = torch.zeros(1, 2, requires_grad=True)
        >>> choice = torch.tensor([[0], [1]])
        >>> score_surrogate(logits, choice, torch.tensor([-1.0, 1.0])).backward()
        >>> logits.grad
        tensor([[-0.5000,  0.5000]])
    """
    return (advantage_S.detach() * log_probability(logits, choice)).mean()


def entropy(logits: Tensor) -> Tensor:
    """Entropy of each edge's distribution, in nats: ``ln 8`` when nothing is known, 0 when all is settled.

    Example:
        >>> round(entropy(torch.zeros(8)).item(), 4)
        2.0794
    """
    log_q = logits.log_softmax(dim=-1)
    return -(log_q.exp() * log_q).sum(dim=-1)
