"""The density of relaxed architectures that SVGD-RD seeks: a mixture of Gaussians around one-hot corners.

METHOD: SVGD-RD. A particle is a relaxed one-hot table, ``T x J x O`` numbers in a row. Edges are independent::

    p(x) = product over edges e of sum over k of q[e, k] * N(x[e]; corner k, sigma^2)

so the score of an edge is ``(sum over k of r[e, k] corner k - x[e]) / sigma^2``, with ``r`` the share that corner ``k``
has in the mixture at ``x[e]``: the posterior of the corner.

Shapes: ``n`` particles, ``d = T J O``; ``J`` edges of both tables here (28), ``O`` operations (8).

This file does not know how the posterior was found, nor how particles move.
"""

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from quorate.quest.concrete import gumbel, hard_choice

__all__ = ["distinct_starts", "log_density", "score"]


def _responsibilities(particles: Tensor, logits: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
    """``[n, ..., O]`` unnormalised log shares of the corners, and the particles in the tables' shape."""
    x = particles.reshape(-1, *logits.shape)
    # |x - corner k|^2 = |x|^2 - 2 x_k + 1: only x_k differs between corners.
    shares = logits.log_softmax(dim=-1) + (2 * x - 1 - x.square().sum(dim=-1, keepdim=True)) / (2 * sigma**2)
    return shares, x


def log_density(particles: Tensor, logits: Tensor, sigma: float) -> Tensor:
    """``log p(x)`` up to a constant, ``[n]``.

    Args:
        particles: ``[n, d]``.
        logits: of the posterior, ``[T, J, O]`` or any shape with operations last.
        sigma: width of the corners.

    Example:
        >>> corner = torch.tensor([[1.0, 0.0]])
        >>> log_density(corner, torch.zeros(1, 2), 0.5) > log_density(0.5 * corner, torch.zeros(1, 2), 0.5)
        tensor([True])
    """
    shares, _ = _responsibilities(particles, logits, sigma)
    return shares.logsumexp(dim=-1).flatten(1).sum(dim=1)


def score(particles: Tensor, logits: Tensor, sigma: float) -> Tensor:
    """``grad log p(x)``, ``[n, d]``; arguments as for :func:`log_density`.

    Note:
        **[ours]** The paper names neither the space of particles nor the density. A width of 0.5 is the only one tried
        at which repulsion is a usable dial: below 0.4 it does nothing, at 1 everything collapses to the mode.

    Example:
        >>> score(torch.tensor([[1.0, 0.0]]), torch.tensor([[9.0, -9.0]]), 0.5).abs().max() < 1e-5
        tensor(True)
    """
    shares, x = _responsibilities(particles, logits, sigma)
    return ((shares.softmax(dim=-1) - x) / sigma**2).reshape(particles.shape)


def distinct_starts(logits: Tensor, count: int, sigma: float, generator: torch.Generator) -> Tensor:
    """Distinct draws from the posterior plus noise of width ``sigma``, ``[n, d]``.

    After a hundred draws without a new one the rest may repeat: a settled posterior has few.

    Example:
        >>> distinct_starts(torch.zeros(2, 14, 8), 3, 0.5, torch.Generator().manual_seed(0)).shape
        torch.Size([3, 224])
    """
    chosen: list[Tensor] = []
    seen: set[tuple[int, ...]] = set()
    for _ in range(100 * count):
        choice = hard_choice(logits, gumbel(logits, generator))
        key = tuple(choice.flatten().tolist())
        if key not in seen or not chosen:
            seen.add(key)
            chosen.append(choice)
        if len(chosen) == count:
            break
    chosen += [chosen[i % len(chosen)] for i in range(count - len(chosen))]
    corners = torch.stack([F.one_hot(choice, logits.shape[-1]).to(logits.dtype).flatten() for choice in chosen])
    noise = torch.empty_like(corners).normal_(generator=generator)
    return corners + sigma * noise
