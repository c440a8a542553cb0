"""What a data set looks like: a sheet with a row of pictures for each class.

For the eye: are the labels right, are the pictures upright, what did the crop leave?

This file does not know where the data set comes from.
"""

from typing import TYPE_CHECKING

import numpy as np

from quorate.data.dataset import Dataset, Images

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["contact_sheet"]

_GAP = 2
_LINE = 14  # pixels a line of text needs


def contact_sheet(data: Dataset, *, columns: int = 12, rows: int = 20) -> "Image.Image":
    """The first training images of each class, a row for each, with its name; small images are enlarged.

    Args:
        data: what to look at.
        columns: images of a class.
        rows: classes; of more, evenly spaced ones.

    Example:
        >>> from quorate.data import load
        >>> contact_sheet(load("digits"), columns=3).width > 3 * 8
        True
    """
    from PIL import Image, ImageDraw

    chosen = np.unique(np.linspace(0, len(data.classes) - 1, min(rows, len(data.classes))).round().astype(int))
    height, width, _ = data.shape
    zoom = max(1, -(-48 // max(height, width)))
    pitch_y, pitch_x = max(height * zoom, _LINE) + _GAP, width * zoom + _GAP
    margin = 8 * min(24, max(len(data.classes[label]) for label in chosen)) + _GAP
    sheet = Image.new("RGB", (margin + columns * pitch_x, len(chosen) * pitch_y + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for row, label in enumerate(chosen):
        draw.text((_GAP, row * pitch_y + _GAP), data.classes[label][:24], fill="black")
        for column, image in enumerate(np.flatnonzero(data.train_labels == label)[:columns]):
            pixels = _rgb(data.train_images[image]).repeat(zoom, 0).repeat(zoom, 1)
            sheet.paste(Image.fromarray(pixels), (margin + column * pitch_x, row * pitch_y + _GAP))
    return sheet


def _rgb(image: Images) -> Images:
    """Three channels as they are; any other number as the grey of their mean."""
    if image.shape[-1] == 3:
        return np.asarray(image)
    grey: Images = np.round(image.mean(-1, keepdims=True)).astype(np.uint8)
    return grey.repeat(3, -1)
