"""Phase 2: the posterior over architectures, with the supernet's weights frozen (paper, Algorithm 1).

``q = product over edges of Categorical(softmax(phi))``. Per batch of the held-out images, with one hard sample at
temperature 1 (or several, each on its part of the batch)::

    L_ELBO = L_joint + kl_weight * KL(q || uniform),    KL = sum over edges of (ln 8 - entropy)

Shapes: ``T`` tables, ``J`` edges, ``O`` operations; ``B`` images.

This file does not know epochs, data sets or files.
"""

import math

import torch
from torch import Tensor

from quorate.quest import adam
from quorate.quest.concrete import entropy
from quorate.quest.config import SearchConfig
from quorate.quest.fitting import State, loss_gradient
from quorate.quest.fitting import init as init_fitting
from quorate.quest.supernet import Supernet

__all__ = ["State", "divergence", "init", "sampling_of", "update"]


def divergence(logits: Tensor) -> Tensor:
    """``KL(q || uniform) = sum over edges of (ln O - entropy)``, in closed form.

    Example:
        >>> divergence(torch.zeros(2, 14, 8)).abs().item() < 1e-5
        True
    """
    return (math.log(logits.shape[-1]) - entropy(logits)).sum()


def init(logits: Tensor, generator: torch.Generator) -> State:
    """``phi`` before its first step.

    Args:
        logits: those of phase 1; zeros for a flat start, as in NESBS.
        generator: of samples.

    Note:
        **[ours]** The paper leaves the start open; from zeros, phase 1's distribution would be lost.

    Example:
        >>> init(torch.zeros(2, 14, 8), torch.Generator()).logits.value.shape
        torch.Size([2, 14, 8])
    """
    return init_fitting(logits, generator)


def sampling_of(config: SearchConfig) -> SearchConfig:
    """The same configuration, as phase 2 samples: hard, at the estimator of the posterior.

    Note:
        **[ours]** Straight-through evaluates all eight operations; the score function evaluates the sampled one, and
        needs no backward pass at all. Straight-through on the sampled one alone is never taken: operations that were
        not evaluated would have no gradient.

    Example:
        >>> chosen = sampling_of(SearchConfig(relaxation="soft"))
        >>> chosen.relaxation, chosen.estimator
        ('soft', 'straight-through')
        >>> chosen = sampling_of(SearchConfig(relaxation="single"))
        >>> chosen.relaxation, chosen.estimator
        ('single', 'score')
    """
    chosen = config.posterior_estimator
    if chosen == "auto":
        chosen = "score" if config.relaxation == "single" else "straight-through"
    relaxation = "single" if chosen == "score" else "soft"
    parts = config.architectures if config.batch % config.architectures == 0 else 1
    return config.model_copy(update={"relaxation": relaxation, "estimator": chosen, "architectures": parts})


def update(
    state: State, supernet: Supernet, images: Tensor, labels: Tensor, config: SearchConfig, kl_weight: float
) -> tuple[State, Tensor]:
    """``phi <- phi - eta * grad L_ELBO``, by Adam (Algorithm 1).

    Args:
        state: before.
        supernet: whose weights stay as they are; its batch norms take the statistics of the batch.
        images: ``[B, C, H, W]``, normalised.
        labels: ``[B]``.
        config: estimator, rate.
        kl_weight: of the divergence; one over the number of images is the exact bound for a mean cross-entropy.

    Returns:
        The state after, and the tally of the batch.
    """
    g_data, tally, state = loss_gradient(
        state, supernet, images, labels, sampling_of(config), temperature=1.0, weights=False
    )
    phi = state.logits.value.detach().requires_grad_()
    (g_kl,) = torch.autograd.grad(kl_weight * divergence(phi), phi)
    moved = adam.update(state.logits, g_data + g_kl, rate=config.posterior_rate, weight_decay=config.posterior_decay)
    return state._replace(logits=moved), tally
