"""What trained learners say: their probabilities, how often each exit is right, and their votes in a file.

METHOD: final training and costs. Evaluation is in float32, without augmentation.

Shapes: ``E`` exits, ``K`` learners, ``N`` images, ``C`` classes.

This file does not know how learners were trained, nor who decides from their votes.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from quorate.data.dataset import Dataset, Labels
from quorate.data.splits import split
from quorate.nets import Learner, align, count_macs
from quorate.squad import Votes
from quorate.store import write_votes
from quorate.store.run import InputSpec
from quorate.train.augment import normalise, scale_for
from quorate.train.inputs import Part, input_for, shown

__all__ = ["Evaluation", "evaluate", "macs_of", "part_of", "probabilities", "record_votes"]

BATCH = 500


class Evaluation(NamedTuple):
    """How a learner does on a part of the data.

    Attributes:
        accuracy: share of right votes at each exit.
        loss: mean cross-entropy at each exit.
    """

    accuracy: tuple[float, ...]
    loss: tuple[float, ...]


def part_of(data: Dataset, name: str, calibration: float, seed: int, device: torch.device) -> Part:
    """The ``train``, ``calibration`` or ``test`` part of a data set.

    Example:
        >>> from quorate.data import load
        >>> len(part_of(load("digits"), "calibration", 0.1, 0, torch.device("cpu")))
        144
    """
    if name == "test":
        return Part(data.test_images, data.test_labels, np.arange(len(data.test_labels)), device)
    splits = split(data.train_labels, seed, calibration=calibration)
    positions: Mapping[str, Labels] = {"train": splits.train, "calibration": splits.calibration}
    if name not in positions:
        raise ValueError(f"a part must be train, calibration or test, got {name!r}")
    return Part(data.train_images, data.train_labels, positions[name], device)


def probabilities(learner: Learner, part: Part, spec: InputSpec, state: Mapping[str, Tensor] | None = None) -> Tensor:
    """What a learner gives each class, ``[E, N, C]`` float32 on the CPU.

    Args:
        learner: on the device of the part; its mode is as before afterwards.
        part: the images.
        spec: how the learner sees them.
        state: other parameters and buffers to evaluate it with, by name (a moving average).

    Example:
        >>> from quorate.data import load
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner, digits = DartsLearner(DARTS_V2, channels=2, cells=3), load("digits")
        >>> part = part_of(digits, "calibration", 0.1, 0, torch.device("cpu"))
        >>> probabilities(learner, part, input_for(digits, channels=3)).shape
        torch.Size([2, 144, 10])
    """
    return torch.cat([logits.softmax(dim=2).cpu() for logits, _ in _logits(learner, part, spec, state)], dim=1)


def evaluate(learner: Learner, part: Part, spec: InputSpec, state: Mapping[str, Tensor] | None = None) -> Evaluation:
    """Accuracy and cross-entropy of each exit; arguments as for :func:`probabilities`.

    Example:
        >>> from quorate.data import load
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner, digits = DartsLearner(DARTS_V2, channels=2, cells=3), load("digits")
        >>> part = part_of(digits, "test", 0.1, 0, torch.device("cpu"))
        >>> len(evaluate(learner, part, input_for(digits, channels=3)).accuracy)
        2
    """
    right, loss = [], []
    for logits_ENC, labels_N in _logits(learner, part, spec, state):
        right.append((logits_ENC.argmax(dim=2) == labels_N).sum(dim=1))
        loss.append(torch.stack([F.cross_entropy(one, labels_N, reduction="sum") for one in logits_ENC]))
    accuracy, entropy = (torch.stack(sums).sum(0).double() / len(part) for sums in (right, loss))
    return Evaluation(tuple(accuracy.tolist()), tuple(entropy.tolist()))


def record_votes(
    learners: Sequence[Learner],
    data: Dataset,
    path: str | os.PathLike[str],
    splits: Sequence[str] = ("calibration", "test"),
    *,
    inputs: Sequence[InputSpec] | None = None,
    calibration: float = 0.1,
    seed: int = 0,
    metadata: Mapping[str, Any] | None = None,
) -> Votes:
    """Ask every branch of a committee about every image, and write their votes, with MACs, for ``quorate replay``.

    Args:
        learners: trained, all on one device.
        data: what they were trained on.
        path: the file to write.
        splits: ``train``, ``calibration``, ``test``: which parts, in this order.
        inputs: how each learner sees images; by default as the data set is, in the channels it was made for.
        calibration: share held out for calibration, as in training.
        seed: of the splits, as in training.
        metadata: anything JSON can say, beside the names of classes and learners.

    Returns:
        The votes that were written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.data import load
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> from quorate.store import read_votes
        >>> digits, learner = load("digits"), DartsLearner(DARTS_V2, channels=2, cells=3)
        >>> with TemporaryDirectory() as folder:
        ...     _ = record_votes([learner], digits, f"{folder}/votes.safetensors")
        ...     read_votes(f"{folder}/votes.safetensors").of("test").probs.shape
        (2, 1, 359, 10)
    """
    if not splits:
        raise ValueError("splits must name at least one of train, calibration and test")
    exits = len(align(learners))
    specs = list(inputs) if inputs is not None else [input_for(data, channels=channels_of(one)) for one in learners]
    if len(specs) != len(learners):
        raise ValueError(f"inputs must be one for each of {len(learners)} learners, got {len(specs)}")
    device = device_of(learners[0])
    parts = {name: part_of(data, name, calibration, seed, device) for name in splits}
    names = np.repeat(np.array(list(parts)), [len(part) for part in parts.values()])
    probs_EKNC = np.full((exits, len(learners), len(names), len(data.classes)), np.nan, np.float32)
    for k, (learner, spec) in enumerate(zip(learners, specs, strict=True)):
        said = torch.cat([probabilities(learner, part, spec) for part in parts.values()], dim=1)
        probs_EKNC[exits - learner.num_exits :, k] = said.numpy()
    present = ~np.isnan(probs_EKNC[..., 0])
    votes = Votes(
        probs_EKNC,
        np.concatenate([part.labels[part.positions] for part in parts.values()]),
        macs_of(learners, specs),
        names,
        present=None if present.all() else present,
        chained=all(learner.chained for learner in learners),
        metadata={"classes": list(data.classes), "source": data.source, **dict(metadata or {})},
    )
    write_votes(votes, path)
    return votes


def macs_of(learners: Sequence[Learner], specs: Sequence[InputSpec]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``[E, K]`` costs of learners that may see images in different sizes, aligned at the last exit.

    Example:
        >>> from quorate.nets import cascade
        >>> flat = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
        >>> macs_of([cascade([flat])], [InputSpec(8, 8, 1, (0.5,), (0.5,))])
        array([[640.]])
    """
    table_EK = np.zeros((len(align(learners)), len(learners)))
    for k, (learner, spec) in enumerate(zip(learners, specs, strict=True)):
        counts = count_macs(learner, (spec.channels, spec.height, spec.width))
        table_EK[len(table_EK) - len(counts) :, k] = counts
    return table_EK


def channels_of(learner: Learner) -> int | None:
    """How many channels a learner's first convolution reads; None where it has none."""
    first = next((m for m in learner.branches[0].modules() if isinstance(m, torch.nn.Conv2d)), None)
    return None if first is None else first.in_channels


def device_of(learner: Learner) -> torch.device:
    """Where a learner's parameters are."""
    return next((p.device for p in learner.parameters()), torch.device("cpu"))


@contextmanager
def _evaluating(learner: Learner) -> Iterator[None]:
    before = learner.training
    learner.eval()
    try:
        yield
    finally:
        learner.train(before)


def _logits(
    learner: Learner, part: Part, spec: InputSpec, state: Mapping[str, Tensor] | None
) -> Iterator[tuple[Tensor, Tensor]]:
    """Logits ``[E, n, C]`` in float32 and labels of one batch after another."""
    if not len(part):
        raise ValueError("there are no images in this part; hold some out with calibration above 0")
    scale = scale_for(spec.mean, spec.std, device=part.device)
    with _evaluating(learner), torch.no_grad():
        for rows in torch.split(torch.arange(len(part), device=part.device), BATCH):
            images, labels = part.batch(rows)
            x_NCHW = normalise(shown(images, spec), scale)
            out = learner(x_NCHW) if state is None else torch.func.functional_call(learner, dict(state), (x_NCHW,))
            yield torch.stack([logits.float() for logits in out]), labels
