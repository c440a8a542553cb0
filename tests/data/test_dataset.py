"""What every data set promises, and its statistics."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.data.dataset import Dataset, moments

ZEROS, LABELS = np.zeros((4, 2, 2, 1), np.uint8), np.array([0, 1, 0, 1])


def dataset(**changed: Any) -> Dataset:
    values = {
        "name": "toy",
        "train_images": ZEROS,
        "train_labels": LABELS,
        "test_images": ZEROS,
        "test_labels": LABELS,
        "classes": ("a", "b"),
        "mirror": True,
        "source": "made",
    }
    return Dataset(**(values | changed))


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_moments_equal_those_of_the_pixels(n: int, height: int, width: int, channels: int, seed: int) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (n, height, width, channels), np.uint8)
    mean, std = moments(images)
    assert np.allclose(mean, (images / 255).mean((0, 1, 2)), atol=1e-12)
    assert np.allclose(std, np.maximum((images / 255).std((0, 1, 2)), 1 / 255), atol=1e-12)


def test_moments_do_not_depend_on_how_many_pieces_they_are_summed_in() -> None:
    images = np.random.default_rng(0).integers(0, 256, (3000, 40, 40, 1), np.uint8)  # two pieces of 2**22 pixels
    assert moments(images)[0] == pytest.approx([images.mean(dtype=np.float64) / 255], abs=1e-12)


def test_a_channel_without_spread_can_be_divided_by() -> None:
    assert dataset().std == (1 / 255,)


def test_statistics_are_of_the_training_images_alone() -> None:
    assert dataset(test_images=ZEROS + np.uint8(255)).mean == (0.0,)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"classes": ("a",)}, "at least two classes"),
        ({"classes": ("a", "a")}, "must differ"),
        ({"train_images": ZEROS.astype(np.float32)}, "uint8 array .*got float32"),
        ({"train_images": ZEROS[..., 0]}, r"\[N, H, W, C\], got uint8 \[4, 2, 2\]"),
        ({"train_images": [1]}, "got list"),
        ({"train_labels": LABELS[:3]}, "4 integers, one an image"),
        ({"train_labels": LABELS + 0.5}, "4 integers"),
        ({"test_labels": LABELS + 1}, r"test labels must lie in 0\.\.1, got 1\.\.2"),
        ({"test_images": np.zeros((4, 3, 2, 1), np.uint8)}, r"must be \[2, 2, 1\] like the training images"),
        ({"test_images": ZEROS[:0], "test_labels": LABELS[:0]}, "the test part has no images"),
    ],
)
def test_broken_promises_are_told(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataset(**changed)
