"""Augmentation read off the method image by image, pixel by pixel: slow and obvious."""

import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.generic]


def crop(image: Image, top: int, left: int, pad: int) -> Image:
    """``[H, W, C]``: the window at (top, left) of the image with ``pad`` black pixels around it."""
    out = np.zeros_like(image)
    height, width, _ = image.shape
    for i in range(height):
        for j in range(width):
            y, x = top + i - pad, left + j - pad
            if 0 <= y < height and 0 <= x < width:
                out[i, j] = image[y, x]
    return out


def mirror(image: Image) -> Image:
    return np.stack([row[::-1] for row in image])


def normalise(image: Image, mean: list[float], std: list[float]) -> Image:
    return np.stack([(image[..., c] / 255 - mean[c]) / std[c] for c in range(image.shape[-1])])


def cutout(image: Image, row: int, column: int, side: int) -> Image:
    """``[C, H, W]``, as the original DARTS code: the square's ends clipped to the image, zeros inside."""
    out = image.copy()
    _, height, width = image.shape
    y1, y2 = np.clip([row - side // 2, row + side // 2], 0, height)
    x1, x2 = np.clip([column - side // 2, column + side // 2], 0, width)
    out[:, y1:y2, x1:x2] = 0
    return out
