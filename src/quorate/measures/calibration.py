"""Calibration: does an answer given with confidence 0.9 hold nine times in ten? (Eq. 3)

The same number for any kind of answer: of a whole policy, of those who leave at one exit, of one exit over all
samples. Whoever nobody could answer (label -1) counts as wrong, with the confidence 0 the policies give him.

Shapes: ``N`` samples, ``E`` exits, ``M`` bins. This file does not know what a policy is, nor where confidence
comes from.
"""

from typing import Self

import numpy as np

from quorate.measures.arrays import Array, Floats, as_exits, as_scores

__all__ = ["CalibrationMeter", "ece", "exit_ece", "stage_ece"]

SLACK = 4e-3
"""How far a confidence may pass 1: what a valid row of bfloat16 probabilities misses."""


def ece(confidence: Array, correct: Array, bins: int = 15) -> float:
    r"""Expected calibration error over ``M`` bins of equal width.

    .. math:: \mathrm{ECE} = \sum_{m=1}^{M} \frac{|B_m|}{N} \, |\mathrm{acc}(B_m) - \mathrm{conf}(B_m)|
        \qquad (Eq. 3)

    Args:
        confidence: ``[N]`` in [0, 1].
        correct: ``[N]`` booleans.
        bins: ``M``.

    Returns:
        A share in [0, 1]; multiply by 100 for the per cent of the paper.

    Note:
        The paper does not say to which bin an edge belongs. Bins are closed on the right, ``((m - 1) / M, m / M]``;
        confidence 0 counts in the first and exactly 1 in the last.

    Example:
        >>> ece([0.95, 1.0], [False, True])
        0.475
    """
    return CalibrationMeter(bins).update(confidence, correct).ece()


def exit_ece(confidence: Array, correct: Array, exit: Array, num_exits: int, bins: int = 15) -> Floats:
    """ECE of each exit over the samples that leave there: ``[E]``, nan where nobody does.

    Args:
        confidence: ``[N]`` of the outcome.
        correct: ``[N]`` booleans.
        exit: ``[N]`` exit taken, from 0.
        num_exits: ``E``.
        bins: ``M`` of :func:`ece`.

    Example:
        >>> exit_ece([0.75, 1.0, 0.5], [True, True, False], exit=[0, 0, 2], num_exits=3)
        array([0.125,   nan, 0.5  ])
    """
    score, right = as_scores(confidence, correct)
    taken = as_exits(exit, num_exits)
    if taken.shape != score.shape:
        raise ValueError(f"exit and confidence must have the same length, got {taken.shape} and {score.shape}")
    leavers = [taken == e for e in range(num_exits)]
    return np.array([ece(score[rows], right[rows], bins) if rows.any() else np.nan for rows in leavers])


def stage_ece(confidence: Array, correct: Array, bins: int = 15) -> Floats:
    """ECE of each exit over all samples, as if everybody had to leave there: ``[E]``.

    Args:
        confidence: ``[E, N]`` of every stage, evaluated for every sample.
        correct: ``[E, N]`` booleans.
        bins: ``M`` of :func:`ece`.

    Example:
        >>> stage_ece([[0.5, 0.5], [1.0, 0.75]], [[True, False], [True, True]])
        array([0.   , 0.125])
    """
    score, right = as_scores(confidence, correct)
    if score.ndim != 2:
        raise ValueError(f"confidence must have two dimensions (exits, samples), got shape {score.shape}")
    return np.array([ece(c, r, bins) for c, r in zip(score, right, strict=True)])


class CalibrationMeter:
    """ECE (Eq. 3) of samples that come in batches: the same bits as :func:`ece` of all at once, in the same order.

    Attributes:
        count: ``[M]`` samples in each bin.
        right: ``[M]`` how many of them were right.
        confidence: ``[M]`` the sum of their confidences.

    Example:
        >>> meter = CalibrationMeter()
        >>> meter.update([0.95], [False]).update([1.0], [True]).ece()
        0.475
    """

    def __init__(self, bins: int = 15) -> None:
        """An empty meter of ``bins`` bins."""
        if bins < 1:
            raise ValueError(f"bins must be at least 1, got {bins}")
        self.count = np.zeros(bins, dtype=np.int64)
        self.right = np.zeros(bins, dtype=np.int64)
        self.confidence = np.zeros(bins)

    def update(self, confidence: Array, correct: Array) -> Self:
        """Add ``[N]`` samples (none is fine) and return the meter."""
        score, right = as_scores(confidence, correct)
        if score.ndim != 1:
            raise ValueError(f"confidence must have one dimension (samples), got shape {score.shape}")
        wrong = (score < 0) | (score > 1 + SLACK)
        if wrong.any():
            where = int(wrong.argmax())
            raise ValueError(
                f"confidence must lie in [0, 1], got {score[where]:g} at sample {where}: give a probability"
            )
        score = np.minimum(score, 1)
        num_bins = len(self.count)
        edges = np.arange(1, num_bins) / num_bins
        bin_of = np.searchsorted(edges, score, side="left")  # how many edges lie below: closed on the right
        self.count += np.bincount(bin_of, minlength=num_bins)
        self.right += np.bincount(bin_of[right], minlength=num_bins)
        np.add.at(self.confidence, bin_of, score)  # one after the other, so that no split into batches matters
        return self

    def ece(self) -> float:
        """The expected calibration error of all samples so far."""
        total = self.count.sum()
        if total == 0:
            raise ValueError("ECE needs at least one sample, got none")
        # |B| / N * |acc - conf| = |right - confidence| / N, with nothing divided by an empty bin.
        return float(np.abs(self.right - self.confidence).sum() / total)
