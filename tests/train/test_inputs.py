import numpy as np
import pytest
import torch
from tests.train.cases import toy

from quorate.store.run import InputSpec
from quorate.train.inputs import Part, input_for, shown

IMAGES = torch.randint(256, (3, 8, 8, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def spec(height, width, channels):
    return InputSpec(height, width, channels, (0.5,) * channels, (0.25,) * channels)


def test_what_fits_is_not_touched():
    assert shown(IMAGES, spec(8, 8, 1)) is IMAGES


def test_grey_is_repeated():
    seen = shown(IMAGES, spec(8, 8, 3))
    assert all(torch.equal(seen[..., c], IMAGES[..., 0]) for c in range(3))


def test_sizes_are_brought_to_the_learners():
    seen = shown(torch.full((2, 8, 8, 3), 77, dtype=torch.uint8), spec(16, 24, 3))
    assert seen.shape == (2, 16, 24, 3)
    assert (seen == 77).all()
    smaller = shown(IMAGES, spec(4, 4, 1)).float()
    assert abs(smaller.mean() - IMAGES.float().mean()) < 8


def test_colours_are_not_made_up():
    with pytest.raises(ValueError, match="can read images of 4 or of 1, got images of 3 channels"):
        input_for(toy(channels=3), channels=4)
    with pytest.raises(ValueError, match="convert the images"):
        shown(torch.zeros(1, 8, 8, 3, dtype=torch.uint8), spec(8, 8, 1))


def test_statistics_are_the_data_sets_or_those_given():
    data = toy()
    assert input_for(data).mean == pytest.approx(data.mean)
    assert input_for(data, channels=3).std == pytest.approx(data.std * 3)
    own = input_for(data, size=(16, 16), channels=3, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    assert (own.height, own.mean[0]) == (16, 0.485)


def test_a_part_takes_batches_from_a_read_only_map(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(2 * 4, dtype=np.uint8).reshape(2, 2, 2, 1))
    part = Part(np.load(tmp_path / "a.npy", mmap_mode="r"), np.array([0, 1]), np.array([1]), torch.device("cpu"))
    images, labels = part.batch(torch.tensor([0]))
    assert images.flatten().tolist() == [4, 5, 6, 7]
    assert labels.tolist() == [1]
