"""How good architectures are by the supernet's weights: predictions, and what they say of members and committees.

METHOD: SVGD-RD, rounds and selectors. Before an architecture predicts, the mean and variance of its batch norms are
estimated anew on training images: those of the supernet are a mixture of all architectures.

Shapes: ``E`` exits, ``K`` learners, ``N`` images, ``C`` classes.

This file does not know who asks, nor where predictions are kept.
"""

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quorate.measures.diversity import ppd
from quorate.nets.genotype import Genotype
from quorate.quest.decode import choice_of
from quorate.quest.mixing import use_statistics
from quorate.quest.supernet import Supernet

__all__ = ["Predictions", "Row", "Scorer", "joint_log_likelihood", "ppd_of", "row_for"]

Predictions = npt.NDArray[np.float32]
"""``[E, N, C]``, probabilities of one architecture."""

TINY = 1e-12


class Scorer:
    """Asks the supernet about architectures, each once.

    Args:
        supernet: with trained weights, on its device.
        estimation: batches of normalised images for the statistics of batch norm.
        scoring: batches of normalised images to predict.
        labels: ``[N]`` of the images to predict.
        kept: predictions by genotype, from here or from elsewhere; new ones are added.

    Example:
        >>> from quorate.nets import DARTS_V1, DARTS_V2
        >>> images = [torch.randn(8, 3, 8, 8)]
        >>> scorer = Scorer(Supernet(2, 3), images, images, np.zeros(8, np.int64), {})
        >>> scorer([DARTS_V1, DARTS_V2]).shape
        (2, 2, 8, 10)
    """

    def __init__(
        self,
        supernet: Supernet,
        estimation: Sequence[Tensor],
        scoring: Sequence[Tensor],
        labels: npt.NDArray[np.int64],
        kept: MutableMapping[Genotype, Predictions],
    ) -> None:
        self.supernet, self.estimation, self.scoring = supernet, estimation, scoring
        self.labels, self.kept = labels, kept

    def __call__(self, genotypes: Sequence[Genotype]) -> npt.NDArray[np.float32]:
        """``[E, K, N, C]`` probabilities of some architectures."""
        for genotype in genotypes:
            if genotype not in self.kept:
                self.kept[genotype] = self._predicted(genotype)
        return np.stack([self.kept[genotype] for genotype in genotypes], axis=1)

    @torch.no_grad()
    def _predicted(self, genotype: Genotype) -> Predictions:
        choice, net = choice_of(genotype), self.supernet
        training = net.training
        net.eval()
        try:
            use_statistics(net, "estimate")
            for images in self.estimation:
                net.chosen(images, choice)
            use_statistics(net, "fixed")
            out = [torch.stack(net.chosen(images, choice)).float().softmax(-1) for images in self.scoring]
        finally:
            net.train(training)
            use_statistics(net, "batch")
        predicted: Predictions = torch.cat(out, dim=1).cpu().numpy()
        return predicted


class Row(NamedTuple):
    """What the supernet says of a committee.

    Attributes:
        macs: of each member, whole.
        accuracy: ``[K][E]`` of each member at each exit.
        ensemble: ``[E]`` accuracy of the averaged probabilities.
        loss: joint: the sum over exits of the cross-entropy of the averaged probabilities.
        ppd: ``[E]`` pairwise disagreement (Eq. 4); zeros for one learner.
    """

    macs: tuple[int, ...]
    accuracy: tuple[tuple[float, ...], ...]
    ensemble: tuple[float, ...]
    loss: float
    ppd: tuple[float, ...]


def joint_log_likelihood(probs_EKNC: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Mean over images of the sum over exits of the log of the averaged probability of the right class.

    Its negative is the ensemble's joint loss, by which sets are compared.

    Example:
        >>> round(joint_log_likelihood(np.full((3, 2, 5, 10), 0.1), np.zeros(5, np.int64)), 4)
        -6.9078
    """
    mean_ENC = probs_EKNC.mean(axis=1, dtype=np.float64)
    right_EN = mean_ENC[:, np.arange(len(labels)), labels]
    return float(np.log(np.maximum(right_EN, TINY)).sum(axis=0).mean())


def ppd_of(probs_EKNC: npt.NDArray[np.float32]) -> tuple[float, ...]:
    """Pairwise predictive disagreement at each exit (Eq. 4); 0 for one learner.

    Example:
        >>> ppd_of(np.full((1, 2, 5, 10), 0.1))
        (0.0,)
    """
    if probs_EKNC.shape[1] < 2:
        return (0.0,) * len(probs_EKNC)
    return tuple(float(share) for share in ppd(probs_EKNC.argmax(axis=-1)))


def row_for(probs_EKNC: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], macs: Sequence[int]) -> Row:
    """What predictions say of a committee whose members cost so much.

    Example:
        >>> probs = np.zeros((1, 2, 4, 2), np.float32)
        >>> probs[0, 0, :, 0] = probs[0, 1, :, 1] = 1
        >>> row_for(probs, np.zeros(4, np.int64), [5, 6])[1:]
        (((1.0,), (0.0,)), (1.0,), 0.6931471805599453, (1.0,))
    """
    right_EKN = probs_EKNC.argmax(axis=-1) == labels
    mean_ENC = probs_EKNC.mean(axis=1, dtype=np.float64)
    return Row(
        tuple(int(cost) for cost in macs),
        tuple(tuple(float(share) for share in column) for column in right_EKN.mean(axis=2).T),
        tuple(float(share) for share in (mean_ENC.argmax(axis=-1) == labels).mean(axis=1)),
        -joint_log_likelihood(probs_EKNC, labels),
        ppd_of(probs_EKNC),
    )
