"""Augmentation against its slow reading, and its statistics against what they must be."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_definition import data_augment as slow

from quorate.train.augment import (
    Augmentation,
    augment,
    augmentation_for,
    crop,
    cutout,
    mirror,
    normalise,
    scale_for,
)

SIDES = st.integers(1, 9)


def images(size: int, height: int, width: int, channels: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (size, height, width, channels), generator=generator, dtype=torch.uint8)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(SIDES, SIDES, st.integers(1, 4), st.integers(0, 5), st.data())
@settings(max_examples=60, deadline=None)
def test_crop_equals_the_slow_reading(height: int, width: int, channels: int, pad: int, data: st.DataObject) -> None:
    corners = data.draw(st.lists(st.tuples(*[st.integers(0, 2 * pad)] * 2), min_size=1, max_size=4))
    batch = images(len(corners), height, width, channels)
    top, left = torch.tensor(corners).unbind(1)
    for got, image, (y, x) in zip(crop(batch, top, left, pad), batch, corners, strict=True):
        assert (got.numpy() == slow.crop(image.numpy(), y, x, pad)).all()


@given(SIDES, SIDES, st.integers(1, 4), st.lists(st.booleans(), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_mirror_equals_the_slow_reading(height: int, width: int, channels: int, which: list[bool]) -> None:
    batch = images(len(which), height, width, channels)
    for got, image, flipped in zip(mirror(batch, torch.tensor(which)), batch, which, strict=True):
        assert (got.numpy() == (slow.mirror(image.numpy()) if flipped else image.numpy())).all()


@given(SIDES, SIDES, st.integers(1, 4), st.integers(0, 12), st.data())
@settings(max_examples=60, deadline=None)
def test_cutout_equals_the_slow_reading(height: int, width: int, channels: int, side: int, data: st.DataObject) -> None:
    place = st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))
    centres = data.draw(st.lists(place, min_size=1, max_size=4))
    batch = torch.rand(len(centres), channels, height, width, generator=generator())
    row, column = torch.tensor(centres).unbind(1)
    for got, image, (y, x) in zip(cutout(batch, row, column, side), batch, centres, strict=True):
        assert (got.numpy() == slow.cutout(image.numpy(), y, x, side)).all()


def test_normalise_equals_the_slow_reading() -> None:
    batch, mean, std = images(3, 5, 4, 3), [0.49, 0.48, 0.45], [0.25, 0.24, 0.26]
    for got, image in zip(normalise(batch, scale_for(mean, std)), batch, strict=True):
        assert torch.allclose(got, torch.from_numpy(slow.normalise(image.numpy(), mean, std)).float(), atol=1e-6)


def test_the_whole_is_its_parts_in_order_with_the_generators_draws() -> None:
    batch, how, scale = images(16, 8, 8, 3), Augmentation(2, True, 4), scale_for([0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
    got = augment(batch, how, scale, generator(7))
    g = generator(7)
    top, left = torch.randint(5, (2, 16), generator=g)
    flipped = torch.randint(2, (1, 16), generator=g)[0]
    row, column = torch.randint(8, (1, 16), generator=g)[0], torch.randint(8, (1, 16), generator=g)[0]
    for i in range(16):
        image = slow.crop(batch[i].numpy(), int(top[i]), int(left[i]), 2)
        image = slow.mirror(image) if flipped[i] else image
        image = slow.normalise(image, [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])
        image = slow.cutout(image, int(row[i]), int(column[i]), 4)
        assert torch.allclose(got[i], torch.from_numpy(image).float(), atol=1e-5)


def test_nothing_asked_for_is_normalisation_alone_and_draws_nothing() -> None:
    batch, scale, g = images(4, 6, 6, 1), scale_for([0.3], [0.3]), generator(1)
    assert torch.equal(augment(batch, Augmentation(0, False, 0), scale, g), normalise(batch, scale))
    assert torch.equal(g.get_state(), generator(1).get_state())


def test_the_same_generator_state_gives_the_same_batch() -> None:
    batch, how, scale = images(8, 32, 32, 3), augmentation_for(32, mirrored=True), scale_for([0.5] * 3, [0.2] * 3)
    assert torch.equal(augment(batch, how, scale, generator(3)), augment(batch, how, scale, generator(3)))
    assert not torch.equal(augment(batch, how, scale, generator(3)), augment(batch, how, scale, generator(4)))


def test_batches_leave_in_channels_last_memory_and_the_input_is_untouched() -> None:
    batch = images(4, 32, 32, 3)
    before = batch.clone()
    out = augment(batch, augmentation_for(32, mirrored=True), scale_for([0.5] * 3, [0.2] * 3), generator())
    assert out.is_contiguous(memory_format=torch.channels_last)
    assert out.dtype == torch.float32
    assert torch.equal(batch, before)


def within(count: int, tries: int, chance: float) -> bool:
    """Within five standard deviations of a binomial count: wrong once in two million."""
    return abs(count - tries * chance) <= 5 * math.sqrt(tries * chance * (1 - chance))


def test_crops_are_uniform_over_all_windows() -> None:
    # A picture whose pixel says where it is tells which window it was cut to; 81 windows at pad 4.
    n, pad = 20_000, 4
    place = torch.arange(1, 257, dtype=torch.int64).reshape(16, 16).clamp(max=255).to(torch.uint8)
    batch = place.expand(n, 16, 16).unsqueeze(-1).contiguous()
    got = augment(batch, Augmentation(pad, False, 0), scale_for([0.0], [1 / 255]), generator(5))
    centre = got[:, 0, 8, 8].round().long() - 1  # 16 * y + x of the pixel that came to the centre
    top, left = centre // 16 - 8 + pad, centre % 16 - 8 + pad
    counts = torch.bincount(top * 9 + left, minlength=81)
    assert counts.numel() == 81
    assert all(within(int(count), n, 1 / 81) for count in counts)


def test_half_of_the_images_are_mirrored() -> None:
    n = 20_000
    batch = torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 2, 1).expand(n, 1, 2, 1).contiguous()
    got = augment(batch, Augmentation(0, True, 0), scale_for([0.0], [1.0]), generator(6))
    assert within(int((got[:, 0, 0, 0] == 1).sum()), n, 0.5)


def test_cutout_hides_every_pixel_as_often_as_its_place_says() -> None:
    # Of 8 centres along an axis, pixel i is hidden by those in i - 1 .. i + 2 that exist (a square of 4): 3 at the
    # first pixel (0, 1, 2), 4 inside, and at the end 3 (5, 6, 7) and 2 (6, 7).
    n = 20_000
    batch = torch.full((n, 8, 8, 1), 255, dtype=torch.uint8)
    got = augment(batch, Augmentation(0, False, 4), scale_for([0.0], [1.0]), generator(8))
    along = [sum(-2 <= i - centre < 2 for centre in range(8)) / 8 for i in range(8)]
    assert along == [3 / 8, 4 / 8, 4 / 8, 4 / 8, 4 / 8, 4 / 8, 3 / 8, 2 / 8]
    hidden = (got[:, 0] == 0).sum(0)
    assert all(within(int(hidden[i, j]), n, along[i] * along[j]) for i in range(8) for j in range(8))


@pytest.mark.parametrize(("side", "half", "share"), [(32, 16, 0.19), (16, 16, 0.56)])
def test_the_shares_that_the_documentation_names(side: int, half: int, share: float) -> None:
    along = sum(-half // 2 <= i - centre < half // 2 for i in range(side) for centre in range(side)) / side**2
    assert along**2 == pytest.approx(share, abs=0.005)


def test_draws_of_crops_flips_and_cutouts_are_independent_between_images() -> None:
    batch = images(1, 32, 32, 3).expand(64, 32, 32, 3).contiguous()
    out = augment(batch, augmentation_for(32, mirrored=True), scale_for([0.5] * 3, [0.2] * 3), generator())
    assert len({image.numpy().tobytes() for image in out}) > 60


def test_a_scale_needs_a_deviation_for_every_channel() -> None:
    with pytest.raises(ValueError, match="std positive"):
        scale_for([0.5, 0.5], [0.2])
    with pytest.raises(ValueError, match="std positive"):
        scale_for([0.5], [0.0])


@pytest.mark.parametrize("batch", [torch.zeros(2, 8, 8, 3), images(2, 3, 8, 8), images(2, 8, 8, 3)[0]])
def test_batches_must_be_bytes_with_channels_last(batch: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 \[B, H, W, 3\], got .*channels come last"):
        normalise(batch, scale_for([0.5] * 3, [0.2] * 3))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_card_nothing_waits_for_the_host_and_the_batch_fits_a_graph() -> None:
    device = torch.device("cuda")
    batch, scale = images(96, 32, 32, 3).to(device), scale_for([0.5] * 3, [0.2] * 3, device=device)
    g = torch.Generator(device).manual_seed(0)
    how = augmentation_for(32, mirrored=True)
    augment(batch, how, scale, g)
    torch.cuda.set_sync_debug_mode("error")
    try:
        augment(batch, how, scale, g)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(g)
    with torch.cuda.graph(graph):
        out = augment(batch, how, scale, g)
    graph.replay()
    first = out.clone()
    graph.replay()
    assert not torch.equal(first, out)
