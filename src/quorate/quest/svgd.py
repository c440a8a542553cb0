"""Stein variational gradient descent with regularised diversity: particles that seek the density and repel (Eq. 16).

Shapes: ``n`` particles of ``d`` numbers.

This file does not know what a particle means: :mod:`quorate.quest.density` and :mod:`quorate.quest.decode` do.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["State", "direction", "init", "median_bandwidth", "run", "update"]

FLOOR = 1e-6
"""Smallest bandwidth."""


def median_bandwidth(particles: Tensor) -> float | Tensor:
    """``h = median / ln(n + 1)`` over the off-diagonal squared distances, the mean of the two middle ones.

    Args:
        particles: ``[n, d]``.

    Note:
        **[ours]** Floored at 1e-6, with a warning, where particles coincide: there the kernel tells nothing apart.

    Example:
        >>> round(float(median_bandwidth(torch.tensor([[0.0], [2.0]]))), 4)
        3.641
    """
    n = len(particles)
    if n < 2:
        return 1.0
    pairs = torch.pdist(particles.detach()).square().sort().values
    middle = pairs[(len(pairs) - 1) // 2 : len(pairs) // 2 + 1].mean()
    h = float(middle) / math.log(n + 1)
    if not h >= FLOOR:
        warnings.warn(
            f"the particles coincide (their bandwidth falls below {FLOOR:g}): it is set to {FLOOR:g}; they need a "
            "larger repulsion or distinct starts",  # the same words at every step, so that they are printed once
            stacklevel=2,
        )
        return FLOOR
    return h


def direction(particles: Tensor, score: Tensor, repulsion: float, bandwidth: float | Tensor | None = None) -> Tensor:
    """Where each particle goes (Eq. 16)::

        phi(x_i) = 1/n sum over j of [ k(x_j, x_i) grad log p(x_j) + repulsion * grad_{x_j} k(x_j, x_i) ]

    with ``k(x, y) = exp(-|x - y|^2 / h)``, so ``grad_{x_j} k(x_j, x_i) = 2 (x_i - x_j) / h * k(x_j, x_i)``.

    Args:
        particles: ``[n, d]``.
        score: ``[n, d]``, the gradient of the log density at each particle.
        repulsion: ``1 + delta``: 1 is plain SVGD, more pushes particles apart, zero or less lets them collapse.
        bandwidth: ``h``; the median heuristic of :func:`median_bandwidth` when None.

    Note:
        The paper sets ``delta = -1.3`` and says that it amplifies repulsion; with it the force attracts. We take the
        text's meaning: ``repulsion = 2.3`` in the recipe named after the paper, 1 by default. The bandwidth is held
        constant in the gradient.

    Raises:
        ValueError: if shapes differ or the bandwidth is not positive.

    Example:
        >>> x = torch.tensor([[0.0], [1.0]])
        >>> direction(x, torch.zeros(2, 1), repulsion=1.0, bandwidth=1.0)  # a flat density: they move apart
        tensor([[-0.3679],
                [ 0.3679]])
    """
    if particles.dim() != 2 or particles.shape != score.shape:
        raise ValueError(
            f"particles and score must have the same shape [n, d], got {list(particles.shape)} and {list(score.shape)}"
        )
    h = median_bandwidth(particles) if bandwidth is None else bandwidth
    if not float(h) > 0:
        raise ValueError(f"bandwidth must be above 0, got {float(h)}")
    x = particles - particles[:1]  # seen from one of them: far from the origin differences would lose digits
    distances = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()
    k = torch.exp(-distances / h)
    apart = 2 / h * (k.sum(dim=0)[:, None] * x - k.T @ x)
    phi: Tensor = (k.T @ score + repulsion * apart) / len(particles)
    return phi


class State(NamedTuple):
    """Particles in motion.

    Attributes:
        particles: ``[n, d]``.
        velocity: ``[n, d]``.
    """

    particles: Tensor
    velocity: Tensor


def init(particles: Tensor) -> State:
    """Particles at rest.

    Example:
        >>> init(torch.ones(2, 3)).velocity.sum()
        tensor(0.)
    """
    return State(particles.clone(), torch.zeros_like(particles))


def update(
    state: State,
    score: Callable[[Tensor], Tensor],
    *,
    repulsion: float = 1.0,
    rate: float = 0.1,
    momentum: float = 0.9,
    bandwidth: float | Tensor | None = None,
) -> State:
    """``v <- momentum v + phi(x)``, ``x <- x + rate v``.

    Args:
        state: before.
        score: gradient of the log density at ``[n, d]`` particles.
        repulsion: ``1 + delta`` of Eq. 16.
        rate: step size.
        momentum: of the velocity.
        bandwidth: of the kernel.

    Example:
        >>> state = init(torch.tensor([[4.0]]))
        >>> for _ in range(200):
        ...     state = update(state, lambda x: -x, rate=0.05)  # one particle: plain ascent
        >>> abs(state.particles.item()) < 1e-3
        True
    """
    velocity = momentum * state.velocity + direction(state.particles, score(state.particles), repulsion, bandwidth)
    return State(state.particles + rate * velocity, velocity)


def run(
    particles: Tensor,
    score: Callable[[Tensor], Tensor],
    *,
    steps: int = 1000,
    repulsion: float = 1.0,
    rate: float = 0.1,
    momentum: float = 0.9,
) -> Tensor:
    """Where the particles are after so many steps.

    Warns when the repulsion is zero or less: particles then collapse, and learners of a committee become the same.

    Example:
        >>> run(torch.tensor([[1.0], [-1.0]]), lambda x: -x, steps=300).abs().min() > 0.1
        tensor(True)
    """
    if repulsion <= 0 and len(particles) > 1:
        warnings.warn(
            f"a repulsion of {repulsion:g} (delta = {repulsion - 1:g}) does not push particles apart, so the learners "
            "will be alike; take 1 for plain SVGD, more for more diversity",
            stacklevel=2,
        )
    state = init(particles)
    for _ in range(steps):
        state = update(state, score, repulsion=repulsion, rate=rate, momentum=momentum)
    return state.particles
