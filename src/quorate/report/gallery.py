"""Which pictures stand for the exits, and as what they are shown.

Shapes: ``N`` samples; images are uint8 ``[H, W, C]``. This file does not know where pictures come from.
"""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from quorate.report.looking import Sample
from quorate.squad import Outcome

__all__ = ["picked", "samples_of"]

LARGEST = 96


def picked(outcome: Outcome, num_exits: int, most: int = 12) -> list[int]:
    """Samples of each exit: the surest of those that left at the first, the least sure of those at any other.

    Example:
        >>> from quorate.squad import Static, replay
        >>> picked(replay(np.array([[[[0.9, 0.1], [0.6, 0.4]]]]), [[1]], Static()), 1)
        [0, 1]
    """
    found: list[int] = []
    for e in range(num_exits):
        rows = np.flatnonzero(outcome.exit == e)
        sure = outcome.confidence[rows]
        order = np.argsort(-sure if e == 0 else sure, kind="stable")
        found += rows[order][:most].tolist()
    return found


def samples_of(outcome: Outcome, images: Any, labels: Any, classes: Sequence[str], most: int = 12) -> list[Sample]:
    """The pictures that :func:`picked` names, with what was said of them.

    Args:
        outcome: of the policy.
        images: uint8 ``[N, H, W, C]``, in the order of the outcome.
        labels: the truth.
        classes: their names.
        most: of each exit.
    """
    found = []
    for i in picked(outcome, len(outcome.pivot), most):
        label = int(outcome.label[i])
        found.append(
            Sample(
                png=as_png(np.asarray(images[i])),
                exit=int(outcome.exit[i]),
                truth=str(classes[int(labels[i])]),
                answer="no answer" if label < 0 else str(classes[label]),
                confidence=float(outcome.confidence[i]),
                right=label == int(labels[i]),
            )
        )
    return found


def as_png(image: np.ndarray[Any, Any]) -> bytes:
    r"""A picture as PNG, at most 96 pixels wide and high; of other than one or three channels the grey of their mean.

    Example:
        >>> as_png(np.zeros((8, 8, 1), np.uint8))[:4]
        b'\x89PNG'
    """
    from PIL import Image

    if image.shape[2] != 3:
        image = np.round(image.mean(2)).astype(np.uint8)
    picture = Image.fromarray(image)
    picture.thumbnail((LARGEST, LARGEST))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
