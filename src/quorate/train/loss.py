"""What a learner is trained on: the joint loss over its exits (paper, section 2, Eq. 2).

Shapes: ``E`` exits, ``B`` samples, ``C`` classes; logits are one ``[B, C]`` per exit.

This file does not know networks, optimisers or data.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

__all__ = ["exit_losses", "joint_loss"]


def joint_loss(
    logits: Sequence[Tensor],
    labels: Tensor,
    exit_weights: Sequence[float] | None = None,
    *,
    label_smoothing: float = 0.0,
    distillation: float = 0.0,
    temperature: float = 1.0,
) -> Tensor:
    """``L = sum over exits i of beta_i * l(f_i(x), y)`` (Eq. 2), ``l`` the mean cross-entropy.

    Args:
        logits: one ``[B, C]`` per exit, the first exit first.
        labels: ``[B]`` classes.
        exit_weights: ``beta``; by default 1 for all, as in the paper.
        label_smoothing: share of the target that is spread evenly over all classes.
        distillation: weight ``w`` of what earlier exits learn from the last one; see :func:`exit_losses`.
        temperature: of the distillation.

    Note:
        The paper's last exit has no weight of its own; a weight of 1 for it is the paper's loss. Smoothing and
        distillation are ours, and off in the paper's recipe.

    Example:
        >>> logits, labels = [torch.zeros(2, 10), torch.zeros(2, 10)], torch.tensor([3, 7])
        >>> round(joint_loss(logits, labels).item(), 4), round(joint_loss(logits, labels, [0.5, 1.0]).item(), 4)
        (4.6052, 3.4539)
    """
    weights = [1.0] * len(logits) if exit_weights is None else list(exit_weights)
    if len(weights) != len(logits):
        raise ValueError(f"exit_weights must be one for each of {len(logits)} exits, got {weights}")
    losses_E = exit_losses(
        logits, labels, label_smoothing=label_smoothing, distillation=distillation, temperature=temperature
    )
    # Numbers, not a tensor made of them: nothing has to be copied to the device.
    return torch.stack([beta * loss for beta, loss in zip(weights, losses_E, strict=True)]).sum()


def exit_losses(
    logits: Sequence[Tensor],
    labels: Tensor,
    *,
    label_smoothing: float = 0.0,
    distillation: float = 0.0,
    temperature: float = 1.0,
) -> list[Tensor]:
    """The loss of each exit, in float32 whatever the precision of the logits.

    With distillation an exit ``i`` before the last one, ``b``, learns
    ``(1 - w) * l(f_i, y) + w * T^2 * KL(p_b || p_i)``, ``p = softmax(f / T)``; no gradient flows into the teacher.

    Example:
        >>> teacher = torch.tensor([[0.0, 4.0]])
        >>> losses = exit_losses([teacher, teacher], torch.tensor([0]), distillation=1.0)
        >>> losses[0].item(), round(losses[1].item(), 3)
        (0.0, 4.018)
    """
    losses_E = [F.cross_entropy(one.float(), labels, label_smoothing=label_smoothing) for one in logits]
    if distillation > 0:
        teacher = (logits[-1].detach().float() / temperature).log_softmax(dim=1)
        for i, one in enumerate(logits[:-1]):
            student = (one.float() / temperature).log_softmax(dim=1)
            apart = F.kl_div(student, teacher, reduction="batchmean", log_target=True)
            losses_E[i] = (1 - distillation) * losses_E[i] + distillation * temperature**2 * apart
    return losses_E
