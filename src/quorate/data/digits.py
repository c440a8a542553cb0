"""The digits that come with the package: 1,797 grey images of 8x8, ready without a network.

The data are the test file (``optdigits.tes``) of *Optical Recognition of Handwritten Digits*, E. Alpaydin
and C. Kaynak, 1998, UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licence CC BY 4.0
(https://creativecommons.org/licenses/by/4.0/). Changed: packed as ``digits.npz``, each pixel the count 0..16 it was.

This file does not know splits or augmentation.
"""

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from quorate.data.arrays import from_arrays
from quorate.data.dataset import Dataset

__all__ = ["load_digits"]


def load_digits(root: Path | None = None, verify: bool = True) -> Dataset:
    """Handwritten digits, 8x8: 1,438 to train and a stratified fifth, 359, to test.

    Args:
        root: taken for the sake of a common signature; the images are in the package.
        verify: likewise.

    Note:
        Counts 0..16 become grey levels 0..255, rounded. No mirror images: a mirrored 2 is no 2. The file names no
        writers, so a writer's digits stand in both parts [ours].

    Example:
        >>> digits = load_digits()
        >>> digits.train_images.shape, digits.test_images.shape
        ((1438, 8, 8, 1), (359, 8, 8, 1))
    """
    with as_file(files("quorate.data") / "digits.npz") as path, np.load(path, allow_pickle=False) as packed:
        counts, labels, source = packed["images"], packed["labels"], str(packed["source"])
    images = np.round(counts * (255 / 16)).astype(np.uint8)[..., None]
    names = tuple("0123456789")
    return from_arrays("digits", images, labels, classes=names, source=source)
