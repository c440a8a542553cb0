"""The images of a search: which it sees, in which size, and batch after batch of them.

METHOD: data and splits. A part is held out for final training's calibration first and never seen here; the rest is
divided: weights and logits learn from one part, the posterior and all scoring see the other.

Shapes: ``B`` images of ``H`` x ``W`` pixels and ``C`` channels.

This file does not know supernets or losses.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from quorate.data.dataset import Dataset, Images
from quorate.data.splits import digest, split
from quorate.quest.config import SearchConfig
from quorate.store.run import InputSpec
from quorate.train.augment import Augmentation, Scale, augment, augmentation_for, normalise, scale_for
from quorate.train.inputs import Part, input_for, shown
from quorate.train.state import epoch_order

__all__ = ["Material", "material_for"]

STREAMS = 10_000
"""Where the streams of a search begin, away from those of learners."""
TRAIN, LOGITS, POSTERIOR, ESTIMATION, SCORING = range(STREAMS, STREAMS + 5)
CHUNK = 2048


class Material(NamedTuple):
    """Images, and how they are shown.

    Attributes:
        train: for the weights.
        validation: for the posterior and scoring.
        spec: size, channels and normalisation.
        how: augmentation: the crop and the mirror, no cutout.
        scale: normalisation on the device.
        digests: of both parts.
    """

    train: Part
    validation: Part
    spec: InputSpec
    how: Augmentation
    scale: Scale
    digests: dict[str, str]

    def batches(self, part: Part, size: int, seed: int, stream: int, epoch: int, first: int = 0) -> Iterator[
        tuple[Tensor, Tensor]
    ]:  # fmt: skip
        """Images as they are and labels, whole batches in the order of an epoch, from batch ``first`` on."""
        order = epoch_order(len(part), seed, stream, epoch).to(part.device)
        for start in range(first * size, len(part) - size + 1, size):
            yield part.batch(order[start : start + size])

    def augmented(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """Cropped, mirrored and normalised."""
        return augment(images, self.how, self.scale, generator)

    def fixed(self, part: Part, count: int, seed: int, stream: int, batch: int = 128) -> tuple[list[Tensor], Any]:
        """Batches of the same images each time, normalised, and their labels; 0 for all there are."""
        count = min(count or len(part), len(part))
        rows = epoch_order(len(part), seed, stream, 0)[:count].sort().values.to(part.device)
        # Parts of one size: a last one of a few images would count as much, and of one image has no variance.
        pairs = [part.batch(chunk) for chunk in torch.tensor_split(rows, -(-count // batch))]
        images = [normalise(x, self.scale) for x, _ in pairs]
        return images, torch.cat([y for _, y in pairs]).cpu().numpy()


def material_for(data: Dataset, config: SearchConfig, device: torch.device) -> Material:
    """The images of a data set as a search sees them, resized once.

    Raises:
        ValueError: if a part has fewer images than a batch.

    Example:
        >>> from quorate.data import load
        >>> material = material_for(load("digits"), SearchConfig(), torch.device("cpu"))
        >>> len(material.train), len(material.validation), material.how
        (906, 388, Augmentation(pad=1, mirror=False, cutout=0))
    """
    size = None if config.side is None else (config.side, config.side)
    spec = input_for(data, size=size)
    parts = split(
        data.train_labels, config.seed, calibration=config.calibration, search_validation=config.search_validation
    )
    made = []
    for name, positions in (("training", parts.search_train), ("validation", parts.search_validation)):
        if len(positions) < config.batch:
            raise ValueError(
                f"a search needs at least one batch of {config.batch} images for its {name} part, got "
                f"{len(positions)} of {data.name}; take a smaller batch or more images"
            )
        made.append(Part(*_sized(data.train_images, data.train_labels, positions, spec), device))
    usual = augmentation_for(min(spec.height, spec.width), mirrored=data.mirror)
    how = Augmentation(
        usual.pad if config.pad is None else config.pad,
        usual.mirror if config.mirror is None else config.mirror,
        0,
    )
    digests = {"search_train": digest(parts.search_train), "search_validation": digest(parts.search_validation)}
    return Material(made[0], made[1], spec, how, scale_for(spec.mean, spec.std, device=device), digests)


def _sized(images: Images, labels: Any, positions: Any, spec: InputSpec) -> tuple[Images, Any, Any]:
    """Images, labels and positions of a part; where sizes differ, images of their own, made once."""
    if images.shape[1:] == (spec.height, spec.width, spec.channels):
        return images, labels, positions
    chunks = [positions[start : start + CHUNK] for start in range(0, len(positions), CHUNK)]
    resized = [shown(torch.from_numpy(np.asarray(images[chunk])), spec).numpy() for chunk in chunks]
    return np.concatenate(resized), labels[positions], np.arange(len(positions))
