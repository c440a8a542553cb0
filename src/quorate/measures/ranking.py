"""Ranking: does confidence tell right answers from wrong ones, whatever its scale?

ECE is a contested yardstick for exits (a constant can be calibrated), so these two stand beside it. Both see the
order of the confidences alone. Whoever nobody could answer counts as wrong, with confidence 0.

Shapes: ``N`` samples. This file does not know what a policy is, nor where confidence comes from.
"""

from typing import Any, TypeAlias

import numpy as np

from quorate.measures.arrays import Array, as_scores

__all__ = ["aurc", "auroc"]

Counts: TypeAlias = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]


def aurc(confidence: Array, correct: Array) -> float:
    r"""Area under the risk-coverage curve: the mean error rate of the most confident 1, 2, ..., N samples.

    .. math:: \mathrm{AURC} = \frac{1}{N} \sum_{i=1}^{N} \frac{1}{i} \sum_{j \le i} [\text{sample } j \text{ is wrong}]

    with samples in falling order of confidence. Lower is better: 0 when every answer is right, and the error rate on
    average when confidence says nothing.

    Args:
        confidence: ``[N]`` numbers that grow with trust.
        correct: ``[N]`` booleans.

    Note:
        Among equal confidences no order is better than another: the result is the mean over all of them, so it does
        not depend on the order in which samples come.

    Example:
        >>> aurc([0.9, 0.8, 0.7, 0.6], [True, True, True, False])
        0.0625
        >>> aurc([0.5, 0.5], [True, False])
        0.5
    """
    right_I, count_I = _tied(confidence, correct)
    wrong = np.repeat((count_I - right_I) / count_I, count_I)  # a tie shares its errors out evenly
    return float(np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1)))


def auroc(confidence: Array, correct: Array) -> float:
    r"""Chance that a right answer is given with more confidence than a wrong one.

    .. math:: \mathrm{AUROC} = P(c_+ > c_-) + \tfrac{1}{2} P(c_+ = c_-)

    over pairs of a right and a wrong sample: 1 when confidence separates them, 0.5 when it says nothing.

    Args:
        confidence: ``[N]`` numbers that grow with trust.
        correct: ``[N]`` booleans.

    Returns:
        A share, or nan when all samples are right or all are wrong: then there is no pair to compare.

    Note:
        Equal confidences count half.

    Example:
        >>> auroc([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
        0.75
        >>> auroc([0.9, 0.8], [True, True])
        nan
    """
    right_I, count_I = _tied(confidence, correct)
    wrong_I = count_I - right_I
    pairs = int(right_I.sum()) * int(wrong_I.sum())
    if pairs == 0:
        return float("nan")
    below_I = wrong_I[::-1].cumsum()[::-1] - wrong_I  # wrong answers of lower confidence
    return float((right_I * (below_I + wrong_I / 2)).sum() / pairs)


def _tied(confidence: Array, correct: Array) -> tuple[Counts, Counts]:
    """How many samples are right, and how many there are, at each distinct confidence ``I``, the highest first."""
    score, right = as_scores(confidence, correct)
    if score.ndim != 1 or score.size == 0:
        raise ValueError(f"confidence must hold at least one sample in one dimension, got shape {score.shape}")
    _, group, count = np.unique(-score, return_inverse=True, return_counts=True)
    return np.bincount(group[right], minlength=len(count)), count
