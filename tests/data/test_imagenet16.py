"""ImageNet16-120 on generated files of its format."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from quorate.data.imagenet16 import load_imagenet16
from quorate.errors import QuorateError

FILES = (*(f"train_data_batch_{i}" for i in range(1, 11)), "val_data")


def write(root: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    (root / "ImageNet16").mkdir()
    made = {}
    for file in FILES:
        images, labels = rng.integers(0, 256, (30, 3, 16, 16), np.uint8), rng.integers(1, 241, 30)
        value = {"data": images.reshape(30, -1), "labels": labels.tolist(), "mean": images.mean(0).ravel()}
        (root / "ImageNet16" / file).write_bytes(pickle.dumps(value, protocol=2))
        made[file] = images, labels
    return made


def test_the_first_120_classes_are_kept_and_counted_from_zero(tmp_path: Path) -> None:
    made = write(tmp_path)
    data = load_imagenet16(tmp_path, verify=False)
    images = np.concatenate([images for images, _ in list(made.values())[:10]]).transpose(0, 2, 3, 1)
    labels = np.concatenate([labels for _, labels in list(made.values())[:10]])
    assert (data.train_images == images[labels <= 120]).all()
    assert data.train_labels.tolist() == (labels[labels <= 120] - 1).tolist()
    assert len(data.test_labels) == (made["val_data"][1] <= 120).sum()
    assert (data.shape, data.classes[0], data.classes[-1]) == ((16, 16, 3), "1", "120")


def test_checksums_are_the_authors(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(QuorateError, match="27846dcaa50de8e21a7d1a35f30f0e91"):
        load_imagenet16(tmp_path)


def test_a_missing_batch_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "ImageNet16" / "train_data_batch_10").unlink()
    with pytest.raises(QuorateError, match="the folder ImageNet16 lacks train_data_batch_10"):
        load_imagenet16(tmp_path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [1, 2]}, r"must be uint8 \[n, 768\], is uint8 \[2, 3072\]"),
        ({"labels": [1]}, "is NoneType"),
        ({"data": np.zeros((2, 768), np.uint8), "labels": [0, 2]}, "2 integers from 1"),
        ({"data": np.zeros((2, 768), np.uint8), "labels": [1]}, "2 integers from 1"),
        ({"data": np.zeros((2, 768), np.uint8), "labels": [500, 900]}, "the test part has no images"),
    ],
)
def test_damaged_batches_are_told(tmp_path: Path, value: object, words: str) -> None:
    write(tmp_path)
    (tmp_path / "ImageNet16" / "val_data").write_bytes(pickle.dumps(value, protocol=2))
    with pytest.raises(QuorateError, match=words):
        load_imagenet16(tmp_path, verify=False)
