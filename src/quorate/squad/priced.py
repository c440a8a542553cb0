"""A policy that asks in the order of costs of its own, whatever its answers are charged in.

Shapes: ``E`` exits, ``K`` learners. This file does not know what the costs are: milliseconds, energy, MACs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.checks import check_macs, check_order
from quorate.squad.protocol import Array, Lattice, Policy, Verdict

__all__ = ["Priced"]


@dataclass(frozen=True)
class Priced:
    """A policy whose voting order and path follow a table of costs that it brings along.

    A policy that was tuned in milliseconds goes on asking in the order of milliseconds where costs are MACs.

    Args:
        policy: who decides.
        costs: ``[E][K]`` the table it was tuned with.

    Example:
        >>> from quorate.squad import Cascade, replay
        >>> probs = np.array([[[[0.9, 0.1]], [[0.2, 0.8]]]])
        >>> replay(probs, [[1, 5]], Cascade(0.7)).label, replay(probs, [[1, 5]], Priced(Cascade(0.7), [[2, 1]])).label
        (array([0]), array([1]))
    """

    policy: Policy
    costs: Sequence[Sequence[float]]

    def __post_init__(self) -> None:
        """Keep plain numbers."""
        table = np.asarray(self.costs, dtype=np.float64)
        if table.ndim != 2:
            raise ValueError(f"costs must be a table [exits, learners], got {self.costs}")
        check_macs(table, *table.shape)
        object.__setattr__(self, "costs", tuple(tuple(row) for row in table.tolist()))

    def __str__(self) -> str:
        """As tables name it."""
        return f"{self.policy}, in an order of its own"

    def start(self, n: int, lattice: Lattice) -> Any:
        """The policy's own state, on a lattice with these costs."""
        table = np.asarray(self.costs)
        if table.shape != lattice.macs.shape:
            raise ValueError(
                f"costs are for {list(table.shape)} branches, the committee has {list(lattice.macs.shape)}"
            )
        xp = namespace(lattice.like)
        order = xp.asarray(check_order(None, table, n), device=lattice.like.device)
        return self.policy.start(n, lattice._replace(macs=table, order=order))

    def wanted(self, state: Any) -> Array:
        """What the policy wants."""
        return self.policy.wanted(state)

    def tell(self, state: Any, rows: Array, branch: int, probs: Array) -> Any:
        """Tell the policy."""
        return self.policy.tell(state, rows, branch, probs)

    def verdict(self, state: Any) -> Verdict:
        """What the policy says."""
        return self.policy.verdict(state)
