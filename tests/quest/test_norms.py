"""Batch norm by the statistics of the batch: by definition, and nearer to it than the framework's."""

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from quorate.quest.norms import batch_normalised


def by_definition(x, scale, eps=1e-5):
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = (x - mean).square().mean((0, 2, 3), keepdim=True)
    return (x - mean) / (variance + eps).sqrt() * scale[:, None, None]


def results(norm, x, scale, g):
    x, scale = x.clone(memory_format=torch.preserve_format).requires_grad_(), scale.clone().requires_grad_()
    y = norm(x, scale)
    return [y.detach().double(), *(one.double() for one in torch.autograd.grad(y, [x, scale], g))]


@pytest.mark.parametrize("shape", [(8, 4, 32, 32), (2, 3, 4, 4), (32, 8, 12, 16)])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_is_its_definition(shape, last, dtype):
    torch.manual_seed(0)
    kind = torch.channels_last if last else torch.contiguous_format
    x, g = ((torch.randn(shape, dtype=torch.float64) + 1).contiguous(memory_format=kind) for _ in range(2))
    scale = torch.rand(shape[1], dtype=torch.float64)
    wanted = results(by_definition, x, scale, g)
    got = results(lambda x, s: batch_normalised(x, s, None, 1e-5), x.to(dtype), scale.to(dtype), g.to(dtype))
    for a, b in zip(got, wanted, strict=True):
        assert (a - b).abs().max() <= (1e-11 if dtype == torch.float64 else 2e-5) * b.abs().max()


def test_sums_keep_the_digits_that_the_frameworks_lose():
    """A gradient most of which is taken out again, as where many operations meet."""
    torch.manual_seed(0)
    x = (2 * torch.randn(32, 4, 32, 32, dtype=torch.float64) + 0.5).contiguous(memory_format=torch.channels_last)
    scale = torch.rand(4, dtype=torch.float64)
    g = 0.01 * torch.randn_like(x) + by_definition(x, torch.ones(4)) + 1
    wanted = results(by_definition, x, scale, g)
    small = (x.float(), scale.float(), g.float())
    ours = results(lambda x, s: batch_normalised(x, s, None, 1e-5), *small)
    theirs = results(lambda x, s: F.batch_norm(x, None, None, s, None, True), *small)
    apart = [float((one[1] - wanted[1]).abs().max() / wanted[1].abs().max()) for one in (ours, theirs)]
    assert apart[0] < 1e-4
    assert apart[0] < apart[1]


def test_a_scale_of_zero_is_zero_and_of_one_is_none():
    x = torch.randn(8, 4, 32, 32).contiguous(memory_format=torch.channels_last)
    assert not batch_normalised(x, torch.zeros(4), None, 1e-5).any()
    one, none = batch_normalised(x, torch.ones(4), None, 1e-5), batch_normalised(x, None, None, 1e-5)
    assert torch.equal(one, none)
    assert torch.allclose(batch_normalised(x, None, torch.full((4,), 3.0), 1e-5), none + 3)
