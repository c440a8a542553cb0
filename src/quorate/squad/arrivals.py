"""What an order of arrival amounts to once everything has arrived: a voting order at each exit, and absences.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``B = E * K`` branches. This file does not know how anybody votes.
"""

from quorate.squad.arrays import namespace
from quorate.squad.protocol import Array

__all__ = ["moments", "order_of"]


def moments(arrival: Array) -> Array:
    """``[B, N]``: when each branch arrived, ``B`` for never.

    Example:
        >>> import numpy as np
        >>> moments(np.array([[1], [2], [-1]]))
        array([[3],
               [0],
               [1]])
    """
    xp = namespace(arrival)
    never, n = arrival.shape
    samples = xp.arange(n, device=arrival.device)
    when = xp.full((never + 1, n), never, dtype=xp.int64, device=arrival.device)
    for t in range(never):
        when[arrival[t], samples] = t  # what never arrives is written to the row beyond the last branch
    return when[:-1]


def order_of(arrival: Array, order: Array) -> tuple[Array, Array]:
    """``(order, arrived)``, ``[E, K, N]`` each: the branches of each exit as they came, then those that never did.

    Args:
        arrival: ``[B, N]``.
        order: ``[E, K, 1 or N]`` the voting order, in which those that never arrive follow.
    """
    xp = namespace(arrival)
    num_exits, num_learners, _ = order.shape
    n = arrival.shape[1]
    when = moments(arrival).reshape(num_exits, num_learners, n)
    order = xp.broadcast_to(order, when.shape)
    came = xp.argsort(xp.take_along_axis(when, order, axis=1), axis=1, stable=True)
    return xp.take_along_axis(order, came, axis=1), when < num_exits * num_learners
