"""Diversity: how often the learners of a committee disagree, exit by exit (Eq. 4).

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know how a vote comes about.
"""

from itertools import combinations

import numpy as np

from quorate.measures.arrays import Array, Floats, as_numpy

__all__ = ["ppd"]


def ppd(votes: Array, present: Array | None = None) -> Floats:
    r"""Pairwise predictive disagreement of the learners at each exit.

    .. math:: \mathrm{PPD} = \binom{K}{2}^{-1} \sum_{i < j} \frac{1}{N} \sum_{n=1}^{N} [y_i^{(n)} \ne y_j^{(n)}]
        \qquad (Eq. 4)

    Args:
        votes: ``[E, K, N]`` the class each branch votes for.
        present: ``[E, K, N]`` booleans, False where a branch did not vote; everybody by default.

    Returns:
        ``[E]`` shares in [0, 1]; nan where no two learners have voted on a common sample, as with a single learner.

    Note:
        The paper knows no absent learners. A pair is judged on the samples on which both have voted, and left out
        where there are none.

    Example:
        >>> ppd([[[0, 1, 2], [0, 1, 1]]])
        array([0.33333333])
    """
    votes_EKN = as_numpy(votes)
    if votes_EKN.ndim != 3 or votes_EKN.size == 0:
        raise ValueError(
            f"votes must have the dimensions (exits, learners, samples), none empty, got {votes_EKN.shape}"
        )
    if votes_EKN.dtype.kind not in "iu":
        raise TypeError(f"votes must hold classes as integers, got {votes_EKN.dtype}: take the argmax of probabilities")
    present_EKN = np.ones(votes_EKN.shape, dtype=bool) if present is None else as_numpy(present)
    if present_EKN.shape != votes_EKN.shape:
        raise ValueError(f"present must have the shape of votes {votes_EKN.shape}, got {present_EKN.shape}")
    if present_EKN.dtype != np.bool_:
        raise TypeError(f"present must hold booleans, got {present_EKN.dtype}")
    num_exits, num_learners, _ = votes_EKN.shape
    share_E, pairs_E = np.zeros(num_exits), np.zeros(num_exits)
    for i, j in combinations(range(num_learners), 2):
        both_EN = present_EKN[:, i] & present_EKN[:, j]
        differ_E = (both_EN & (votes_EKN[:, i] != votes_EKN[:, j])).sum(axis=-1)
        common_E = both_EN.sum(axis=-1)
        share_E += differ_E / np.maximum(common_E, 1)
        pairs_E += common_E > 0
    return np.divide(share_E, pairs_E, out=np.full(num_exits, np.nan), where=pairs_E > 0)
