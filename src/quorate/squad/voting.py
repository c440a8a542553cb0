"""Majority voting at one exit: section 4.3 of the paper (Eqs. 5 and 6).

Votes stand in voting order: row ``m`` of ``votes`` is the class that the branch of rank ``m`` voted for, -1 where it
is absent or has not been asked. An absent branch keeps its rank and counts for no class; the quorum stays out of K.

Shapes: ``K`` ranks, ``N`` samples, ``C`` classes. This file knows nothing of confidences, exits or costs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from quorate.squad.arrays import namespace
from quorate.squad.protocol import Array

__all__ = ["Settled", "plurality", "quorum", "quorum_size"]


class Settled(NamedTuple):
    """How the votes of one exit were settled.

    Attributes:
        pivot: ``[N]`` rank after whose vote the outcome no longer depends on the others.
        reached: ``[N]`` whether a class has the quorum (False: no class can have it any more).
        consensus: ``[N]`` that class, -1 where there is none.
    """

    pivot: Array
    reached: Array
    consensus: Array


def quorum_size(num_learners: int) -> int:
    """``K // 2 + 1``: the votes that make a class the consensus.

    Example:
        >>> [quorum_size(k) for k in (1, 2, 3, 4, 5)]
        [1, 2, 2, 3, 3]
    """
    return num_learners // 2 + 1


def quorum(votes: Array) -> Settled:
    """Find the pivot of each sample: the first rank at which the vote is settled.

    With ``V^(m)`` the tally after rank ``m`` (Eq. 6) and ``lead = max V^(m)``, the vote is

    - reached when ``lead >= K // 2 + 1``;
    - unfeasible when ``lead + (K - 1 - m) < K // 2 + 1``.

    Args:
        votes: ``[K, N]`` classes in voting order, -1 for an absent branch.

    Example:
        Two agree at once; the third vote decides; three classes never agree.

        >>> import numpy as np
        >>> quorum(np.array([[7, 7, 0], [7, 2, 1], [3, 2, 2]]))
        Settled(pivot=array([1, 2, 2]), reached=array([ True,  True, False]), consensus=array([ 7,  2, -1]))
    """
    xp = namespace(votes)
    num_learners, n = votes.shape
    need = quorum_size(num_learners)
    # sums of truth values in small integers, and no `where`: short rows of a million samples are swept here
    lead = xp.zeros(n, dtype=xp.int16, device=votes.device)
    consensus, pivot = votes[0] * 0 - 1, votes[0] * 0 - 1
    for m in range(num_learners):
        agree = lead * 0
        for r in range(m + 1):
            agree = agree + xp.astype(votes[r] == votes[m], xp.int16)
        agree = agree * xp.astype(votes[m] >= 0, xp.int16)
        lead = xp.maximum(lead, agree)
        open_ = pivot < 0
        reached = open_ & (agree >= need)
        unfeasible = open_ & (lead + (num_learners - 1 - m) < need)
        consensus = consensus + reached * (votes[m] + 1)
        pivot = pivot + (reached | unfeasible) * (m + 1)
    return Settled(pivot, consensus >= 0, consensus)


def plurality(votes: Array, probs: Sequence[Array]) -> Array:
    """The class with the most votes; among tied ones the most probable, then the lowest index.

    Note:
        The paper is silent on ties. Ours: the largest probability, summed in voting order in float64 over the
        branches that voted. A class with a quorum is always its own plurality.

    Args:
        votes: ``[K, N]`` classes in voting order, -1 for a branch that did not vote.
        probs: ``K`` distributions ``[N, C]`` in the same order; finite also where nobody voted.

    Returns:
        ``[N]`` the class, -1 where nobody voted.

    Example:
        >>> import numpy as np
        >>> probs = np.array([[[0.6, 0.1, 0.3]], [[0.0, 0.5, 0.5]], [[0.2, 0.2, 0.6]]])
        >>> plurality(np.array([[0], [1], [2]]), probs)
        array([2])
    """
    xp = namespace(votes)
    if votes.shape[1] == 1 and xp is np:
        return np.full(1, _plurality_one(votes[:, 0].tolist(), probs))
    ranks = range(votes.shape[0])
    best = votes[0] * 0 - 1
    most, mass = best * 0, xp.astype(best * 0, xp.float64)
    for r in ranks:
        count, weight = most * 0, mass * 0
        chosen = votes[r] * (votes[r] >= 0)
        for s in ranks:
            of_s = xp.take_along_axis(probs[s], chosen[:, None], axis=1)[:, 0]
            weight = weight + xp.astype(of_s, xp.float64) * (votes[s] >= 0)
            count = count + (votes[s] == votes[r])
        ahead = (count > most) | ((count == most) & ((weight > mass) | ((weight == mass) & (votes[r] < best))))
        ahead = ahead & (votes[r] >= 0)
        best = xp.where(ahead, votes[r], best)
        most, mass = xp.where(ahead, count, most), xp.where(ahead, weight, mass)
    return best


def _plurality_one(votes: list[int], probs: Sequence[Array]) -> int:
    """:func:`plurality` for a batch of one, in plain numbers: a tenth of the time, and by test the same."""
    best, most, mass = -1, 0, 0.0
    for vote in votes:
        count = votes.count(vote)
        if vote < 0 or count < most:
            continue
        weight = 0.0
        for s, other in enumerate(votes):
            if other >= 0:
                weight += float(probs[s][0, vote])
        if count > most or weight > mass or (weight == mass and vote < best):
            best, most, mass = vote, count, weight
    return best
