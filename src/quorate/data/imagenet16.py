"""ImageNet16-120: ImageNet at 16x16, its first 120 classes, in the layout of NAS-Bench-201.

Ten training pickles and one of validation images, which is the test part here; each holds ``data``
``[n, 768]`` uint8, channel by channel, and ``labels`` from 1. All 1,000 classes are in the files; those above 120 are
left out while reading, which leaves 151,700 + 6,000 images.

Checksums: those of the authors' own loader (AutoDL-Projects, ``DownsampledImageNet.py``).

This file does not know splits or augmentation. It has been tried on generated files of this format only.
"""

from pathlib import Path

import numpy as np

from quorate.data.dataset import Dataset, Images, Labels
from quorate.data.files import Layout, find, verify_md5
from quorate.data.pickles import read_pickle
from quorate.errors import QuorateError

__all__ = ["load_imagenet16"]

_CLASSES = 120
_PIXELS = 3 * 16 * 16
_MD5 = {
    "train_data_batch_1": "27846dcaa50de8e21a7d1a35f30f0e91",
    "train_data_batch_2": "c7254a054e0e795c69120a5727050e3f",
    "train_data_batch_3": "4333d3df2e5ffb114b05d2ffc19b1e87",
    "train_data_batch_4": "1620cdf193304f4a92677b695d70d10f",
    "train_data_batch_5": "348b3c2fdbb3940c4e9e834affd3b18d",
    "train_data_batch_6": "6e765307c242a1b3d7d5ef9139b48945",
    "train_data_batch_7": "564926d8cbf8fc4818ba23d2faac7564",
    "train_data_batch_8": "f4755871f718ccb653440b9dd0ebac66",
    "train_data_batch_9": "bb6dd660c38c58552125b1a92f86b5d4",
    "train_data_batch_10": "8f03f34ac4b42271a294f91bf480f29b",
    "val_data": "3410e3017fdaefba8d5073aaa65e4bd6",
}


def load_imagenet16(root: Path, verify: bool = True) -> Dataset:
    """ImageNet16-120: 151,700 + 6,000 photographs of 16x16 in 120 classes.

    Args:
        root: the folder that holds ``ImageNet16``.
        verify: whether to compare the files with the published checksums.

    Note:
        The files give no names to their classes; they are called by their ImageNet number, 1 to 120.

    Example:
        >>> load_imagenet16(Path("/nowhere"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: imagenet16-120 is not in /nowhere: there is no folder ImageNet16 ...
    """
    _, found = find("imagenet16-120", root, (Layout("ImageNet16", tuple(_MD5)),))
    if verify:
        verify_md5(found, _MD5)
    *train, test = (_read(path) for path in found.values())
    try:
        return Dataset(
            "imagenet16-120",
            np.concatenate([images for images, _ in train]),
            np.concatenate([labels for _, labels in train]),
            *test,
            tuple(str(i) for i in range(1, _CLASSES + 1)),
            mirror=True,
            source="ImageNet16, NAS-Bench-201; ImageNet's terms of access apply",
        )
    except ValueError as error:
        raise QuorateError(f"{root / 'ImageNet16'}: {error}") from None


def _read(path: Path) -> tuple[Images, Labels]:
    batch = read_pickle(path)
    data, labels = batch.get("data"), np.asarray(batch.get("labels", []))
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (_PIXELS,):
        shape = f"{data.dtype} {list(data.shape)}" if isinstance(data, np.ndarray) else type(data).__name__
        raise QuorateError(f"{path}: 'data' must be uint8 [n, {_PIXELS}], is {shape}")
    if labels.dtype.kind not in "iu" or labels.shape != (len(data),) or (labels < 1).any():
        raise QuorateError(f"{path}: 'labels' must be {len(data)} integers from 1, one an image")
    kept = labels <= _CLASSES
    images = data[kept].reshape(-1, 3, 16, 16).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(images), labels[kept].astype(np.int64) - 1
