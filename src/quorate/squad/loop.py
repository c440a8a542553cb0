"""The loop that joins a policy and a source, and the source of recorded votes.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes, branch ``e * K + k``.
This file does not know how anybody decides, nor where votes come from.
"""

from collections.abc import Callable, Iterable

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.protocol import DECIDED, Array, Lattice, Policy, Source, Verdict

__all__ = ["Recorded", "drive", "drive_until"]


def drive(policy: Policy, source: Source, n: int, lattice: Lattice) -> tuple[Verdict, Array]:
    """Ask the policy, fetch the votes, tell them, until every sample is decided.

    Returns:
        The verdict, and how many samples each branch ``[E, K]`` really processed.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import Lattice, Recorded, Static
        >>> probs = np.array([[[[0.6, 0.4]], [[0.1, 0.9]]]])
        >>> lattice = Lattice(np.array([[1.0, 2.0]]), np.array([[[0], [1]]]), 2, probs[0, 0, :0, 0])
        >>> verdict, ran = drive(Static(), Recorded(probs), 1, lattice)
        >>> verdict.label, ran
        (array([1]), array([[1, 1]]))
    """
    verdict, ran, _ = drive_until(policy, source, n, lattice, lambda: False)
    return verdict, ran


def drive_until(
    policy: Policy, source: Source, n: int, lattice: Lattice, expired: Callable[[], bool]
) -> tuple[Verdict, Array, Array]:
    """:func:`drive`, given up once ``expired`` says so: it is asked after every vote that was told.

    Returns:
        The verdict (of samples still open the answer of the votes so far), how many samples each branch ``[E, K]``
        really processed, and ``[N]`` which samples still wanted votes.

    Example:
        >>> import numpy as np
        >>> from quorate.squad import Lattice, Recorded, Static
        >>> probs = np.array([[[[0.6, 0.4]], [[0.1, 0.9]]]])
        >>> lattice = Lattice(np.array([[1.0, 2.0]]), np.array([[[0], [1]]]), 2, probs[0, 0, :0, 0])
        >>> verdict, ran, late = drive_until(Static(), Recorded(probs), 1, lattice, lambda: True)
        >>> verdict.label, late
        (array([-1]), array([ True]))
    """
    state = policy.start(n, lattice)
    rounds = 2 * lattice.macs.size  # each branch once as it comes, and once more for those that never do
    wanted = policy.wanted(state)
    while n and (wanted >= 0).any() and not expired():
        if not rounds:
            raise RuntimeError(f"{type(policy).__name__} still wants votes after every branch was told")
        rounds -= 1
        for rows, branch, probs in source.votes(wanted):
            state = policy.tell(state, rows, branch, probs)
            if expired():
                break
        wanted = policy.wanted(state)
    return policy.verdict(state), source.ran, wanted >= 0


class Recorded:
    """Votes that were recorded before: those asked for, or one more a round in the order in which they arrived.

    Args:
        probs: ``[E, K, N, C]``.
        present: ``[E, K, N]`` which branches voted; the others are told as NaN. None: all of them.
        arrival: ``[E * K, N]`` branches in the order told, -1 for never. None: votes come when asked for. A branch
            that never arrived is told as NaN once the policy asks for it and nothing else is left to arrive.
        chained: whether running a branch means running those before it.
    """

    def __init__(
        self, probs: Array, present: Array | None = None, arrival: Array | None = None, chained: bool = True
    ) -> None:
        """See the class."""
        self.probs, self.present, self.arrival, self.chained = probs, present, arrival, chained
        xp = namespace(probs)
        self._asked = xp.zeros(probs.shape[:3], dtype=xp.bool, device=probs.device)
        self._arrived = 0

    def votes(self, wanted: Array) -> Iterable[tuple[Array, int, Array]]:
        """Tell the recorded votes of one round."""
        told, lost = wanted, False
        xp = namespace(wanted)
        if self.arrival is not None:
            told = xp.full_like(wanted, DECIDED)
            while self._arrived < len(self.arrival) and not (told >= 0).any():
                told = xp.where(wanted >= 0, self.arrival[self._arrived], DECIDED)
                self._arrived += 1
            if lost := not (told >= 0).any():
                told = wanted
        for branch in xp.unique_values(told).tolist():
            if branch != DECIDED:
                rows = xp.nonzero(told == branch)[0]
                yield rows, branch, self._vote(rows, branch, lost)

    def _vote(self, rows: Array, branch: int, lost: bool) -> Array:
        e, k = divmod(branch, self.probs.shape[1])
        probs = self.probs[e, k, rows]
        if lost:
            return probs * float("nan")
        if self.present is None:
            self._asked[e, k, rows] = True
            return probs
        here = self.present[e, k, rows]
        self._asked[e, k, rows] = here
        return namespace(probs).where(here[:, None], probs, float("nan"))

    @property
    def ran(self) -> np.ndarray:
        """What a lazy device would have run, ``[E, K]`` samples: each learner up to its deepest vote."""
        ran = self._asked
        num_exits = len(ran)
        if self.chained:
            for e in range(num_exits - 2, -1, -1):
                ran[e] |= ran[e + 1]
        return np.asarray([[int(x.sum()) for x in row] for row in ran])
