import numpy as np
import pytest
import torch
from PIL import Image

from quorate.engine import InputSpec
from quorate.engine.inputs import normal_images, prepare

SPEC = InputSpec(4, 6, 3, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))
PIXELS = np.random.default_rng(0).integers(0, 256, size=(5, 4, 6, 3), dtype=np.uint8)
WANTED = (PIXELS.transpose(0, 3, 1, 2) / 255 - np.reshape(SPEC.mean, (3, 1, 1))) / np.reshape(SPEC.std, (3, 1, 1))


@pytest.mark.parametrize(
    "given",
    [
        PIXELS,
        PIXELS.transpose(0, 3, 1, 2),
        PIXELS / 255,
        (PIXELS / 255).astype(np.float32).transpose(0, 3, 1, 2),
        torch.tensor(PIXELS),
        torch.tensor(PIXELS).permute(0, 3, 1, 2) / 255,
        list(PIXELS),
        [Image.fromarray(image) for image in PIXELS],
        [Image.fromarray(PIXELS[0]), *PIXELS[1:4], torch.tensor(PIXELS[4]).permute(2, 0, 1)],
    ],
)
def test_every_way_to_give_images_is_the_same(given):
    made = prepare(given, [SPEC]).of(0, np.arange(5))
    assert made.dtype == np.float32
    assert made.flags.c_contiguous
    np.testing.assert_allclose(made, WANTED, atol=1e-6)
    np.testing.assert_array_equal(prepare(given, [SPEC]).of(0, np.array([3, 1])), made[[3, 1]])


def test_one_picture_is_a_batch_of_one():
    assert prepare(Image.fromarray(PIXELS[0]), [SPEC]).of(0, np.arange(1)).shape == (1, 3, 4, 6)


def test_grey_images_are_repeated_for_a_learner_of_more_channels():
    grey = PIXELS[..., :1]
    made = prepare(grey, [SPEC]).of(0, np.arange(5))
    np.testing.assert_allclose(made, prepare(np.repeat(grey, 3, axis=3), [SPEC]).of(0, np.arange(5)))


def test_learners_of_different_sizes_read_the_same_images():
    other = InputSpec(8, 12, 3, SPEC.mean, SPEC.std)
    given = prepare(PIXELS, [SPEC, other])
    assert given.of(0, np.arange(5)).shape == (5, 3, 4, 6)
    assert given.of(1, np.arange(5)).shape == (5, 3, 8, 12)


@pytest.mark.parametrize("size", [(7, 9), (20, 30), (64, 48)])
def test_resizing_is_what_pillow_does(size):
    plain = InputSpec(*size, 1, (0.0,), (1.0,))
    image = np.random.default_rng(1).random((32, 24)).astype(np.float32)
    wanted = Image.fromarray(image, mode=None).resize(size[::-1], Image.Resampling.BILINEAR)
    np.testing.assert_allclose(normal_images(image[None, None], plain)[0, 0], np.asarray(wanted), atol=1e-5)


@pytest.mark.parametrize("size", [(3, 5), (9, 16)])
def test_whole_numbers_are_resized_as_training_does(size):
    plain = InputSpec(*size, 3, (0.0,) * 3, (1.0,) * 3)
    made = prepare(PIXELS, [plain]).of(0, np.arange(5))
    floats = torch.tensor(PIXELS).permute(0, 3, 1, 2).float()
    wanted = torch.nn.functional.interpolate(floats, size, mode="bilinear", antialias=True).round() / 255
    assert np.abs(made - wanted.numpy()).max() < 1.01 / 255  # a half may be rounded either way
    assert (np.abs(made - wanted.numpy()) < 1e-6).mean() > 0.99


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.zeros((5, 4, 6, 2), np.uint8), ValueError, "neither end of"),
        (np.zeros((5, 3, 9, 3), np.uint8), ValueError, "neither end of"),
        (np.zeros((4, 6, 3), np.uint8), ValueError, "a single one as images"),
        (PIXELS.astype(np.float32), ValueError, "must lie in 0..1 before normalisation, got 0 to 255; pass uint8"),
        (np.full((1, 4, 6, 3), np.nan), ValueError, "must lie in 0..1"),
        (PIXELS.astype(np.int32), TypeError, "pixels must be uint8 in 0..255 or floats in 0..1, got int32"),
        ("cat.png", TypeError, "images must be arrays, tensors, pictures or a list of them, got str"),
    ],
)
def test_what_are_no_images_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        prepare(given, [SPEC])


@pytest.mark.parametrize(
    ("given", "message"), [((np.zeros(3), np.zeros(4)), "same number of samples, got .3, 4."), ({}, "must be a tensor")]
)
def test_tensors_that_are_no_batch_are_refused(given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        prepare(given, [None])


def test_learners_of_images_and_of_tensors_do_not_mix():
    with pytest.raises(ValueError, match="either all learners read images or none does"):
        prepare(PIXELS, [SPEC, None])
