"""SVGD-RD against two loops, and on targets whose answer is known."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_definition import quest_svgd as plain

from quorate.quest import svgd
from quorate.quest.decode import cell_disagreement, decode_particle
from quorate.quest.density import distinct_starts, log_density, score
from quorate.quest.selecting import particles_to_genotypes


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 6),
    d=st.integers(1, 4),
    repulsion=st.floats(-2, 4),
    bandwidth=st.one_of(st.none(), st.floats(0.1, 10)),
    far=st.sampled_from([0.0, 1e3]),
)
def test_the_direction_is_that_of_two_loops(seed, n, d, repulsion, bandwidth, far):
    particles, scores = torch.randn(2, n, d, generator=generator(seed), dtype=torch.float64)
    particles = particles + far
    h = bandwidth or (plain.bandwidth(particles.tolist()) if n > 1 else 1.0)
    wanted = plain.direction(particles.tolist(), scores.tolist(), repulsion, h)
    got = svgd.direction(particles, scores, repulsion, bandwidth)
    assert torch.allclose(got, torch.tensor(wanted, dtype=torch.float64), rtol=1e-7, atol=1e-9)


def test_the_direction_is_the_gradient_that_autograd_gives():
    x = torch.randn(4, 3, dtype=torch.float64, generator=generator())
    scores, h = torch.randn(4, 3, dtype=torch.float64, generator=generator(1)), 1.7
    wanted = torch.zeros_like(x)
    for i in range(4):
        source = x.clone().requires_grad_()
        k = torch.exp(-(source - x[i]).square().sum(1) / h)
        (gradient,) = torch.autograd.grad(k.sum(), source)
        wanted[i] = (k.detach() @ scores + 2.3 * gradient.sum(0)) / 4
    assert torch.allclose(svgd.direction(x, scores, 2.3, h), wanted)


@pytest.mark.parametrize("dimensions", [1, 2])
def test_plain_svgd_recovers_a_gaussian(dimensions):
    mean = torch.tensor([1.0, -2.0], dtype=torch.float64)[:dimensions]
    deviation = torch.tensor([0.5, 1.5], dtype=torch.float64)[:dimensions]
    start = torch.randn(100, dimensions, dtype=torch.float64, generator=generator())
    ended = svgd.run(start, lambda x: (mean - x) / deviation**2, steps=1500, repulsion=1.0, rate=0.1)
    assert torch.allclose(ended.mean(0), mean, rtol=0.1, atol=0.02)
    assert torch.allclose(ended.var(0), deviation**2, rtol=0.1)


def test_without_repulsion_particles_collapse_to_the_mode():
    start = torch.randn(20, 2, dtype=torch.float64, generator=generator())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ended = svgd.run(start, lambda x: 3.0 - x, steps=800, repulsion=0.0)
    assert (ended - 3).abs().max() < 0.05


@pytest.mark.parametrize("repulsion", [-0.3, 0.3, 1.0, 2.3])
def test_on_a_flat_density_particles_part_or_meet_by_the_sign_of_the_repulsion(repulsion):
    x = torch.randn(8, 5, dtype=torch.float64, generator=generator())
    before, state = torch.pdist(x).mean(), svgd.init(x)
    for _ in range(30):
        state = svgd.update(state, torch.zeros_like, repulsion=repulsion)
    after = torch.pdist(state.particles).mean()
    assert (after > before) == (repulsion > 0)


def test_one_particle_is_plain_ascent():
    x = torch.randn(1, 4, dtype=torch.float64)
    assert torch.allclose(svgd.direction(x, 2 * x, repulsion=2.3), 2 * x)


def test_coinciding_particles_are_said_and_give_numbers():
    x = torch.ones(3, 4)
    with pytest.warns(UserWarning, match=r"the particles coincide .* set to 1e-06"):
        phi = svgd.direction(x, torch.zeros_like(x), 1.0)
    assert not phi.any()


def test_coinciding_particles_are_said_once_in_a_run():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        svgd.run(torch.randn(2, 2, generator=generator()) * 1e-4, lambda x: -x, steps=60, repulsion=0.01)
    assert len(said) == 1


@pytest.mark.parametrize("repulsion", [0.0, -0.3])
def test_no_repulsion_is_warned_of(repulsion):
    with pytest.warns(UserWarning, match=r"a repulsion of .* does not push particles apart"):
        svgd.run(torch.randn(2, 2), lambda x: -x, steps=1, repulsion=repulsion)


def test_wrong_shapes_and_bandwidths_are_said():
    with pytest.raises(ValueError, match=r"same shape \[n, d\], got \[2, 3\] and \[2, 2\]"):
        svgd.direction(torch.zeros(2, 3), torch.zeros(2, 2), 1.0)
    with pytest.raises(ValueError, match="bandwidth must be above 0"):
        svgd.direction(torch.zeros(2, 3), torch.zeros(2, 3), 1.0, 0.0)


def test_the_density_is_a_mixture_and_its_score_a_gradient():
    logits = torch.randn(2, 3, dtype=torch.float64, generator=generator())
    x = torch.randn(4, 6, dtype=torch.float64, generator=generator(1))
    q, wanted = logits.softmax(-1), torch.zeros(4, dtype=torch.float64)
    for n in range(4):
        for edge in range(2):
            y = x[n, 3 * edge : 3 * edge + 3]
            corners = torch.eye(3, dtype=torch.float64)
            wanted[n] += (q[edge] * torch.exp(-(y - corners).square().sum(1) / (2 * 0.25))).sum().log()
    got = log_density(x, logits, 0.5)
    assert torch.allclose(got - got[0], wanted - wanted[0])
    source = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(log_density(source, logits, 0.5).sum(), source)
    assert torch.allclose(score(x, logits, 0.5), gradient)


def test_starts_are_distinct_draws_near_corners():
    logits = torch.zeros(2, 14, 8)
    starts = distinct_starts(logits, 5, 1e-4, generator()).view(5, 28, 8)
    assert torch.allclose(starts.sum(-1), torch.ones(5, 28), atol=0.01)
    assert len({tuple(one.argmax(-1).tolist()) for one in starts}) == 5


def test_more_repulsion_is_no_less_disagreement():
    """Decoded as they are, duplicates included, over seeds; the posterior is settled on some edges, open on others."""
    logits = torch.randn(2, 14, 8, dtype=torch.float64, generator=generator(7))
    apart, kinds = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repulsion in (-0.3, 0.3, 1.0, 2.3):
            sets = []
            for seed in range(8):
                start = distinct_starts(logits, 3, 0.5, generator(seed))
                ended = svgd.run(start, lambda x: score(x, logits, 0.5), steps=200, repulsion=repulsion)
                sets.append([decode_particle(x, logits) for x in ended])
            apart.append(math.fsum(cell_disagreement(one) for one in sets) / len(sets))
            kinds.append(sum(len(set(one)) for one in sets) / len(sets))
    assert apart == sorted(apart)
    assert apart[-1] > apart[0] + 0.1
    assert kinds[0] < 3 == kinds[-1]  # the paper's delta of -1.3 lets particles fall together


def test_a_committee_of_particles_has_no_duplicates():
    logits = torch.full((2, 14, 8), -8.0)
    logits[..., 4] = 8  # one architecture has nearly all of the posterior
    assert len(set(particles_to_genotypes(logits, 5, generator(), steps=50))) == 5
