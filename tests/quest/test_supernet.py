"""The supernet against its plain reading, and its two relaxations against each other."""

import pytest
import torch
from tests.by_definition import quest_supernet as plain
from torch.nn import functional as F  # noqa: N812

from quorate.quest.concrete import concrete, gumbel, hard_choice
from quorate.quest.memory import activation_bytes
from quorate.quest.mixing import use_statistics
from quorate.quest.supernet import TABLE, Supernet
from quorate.train import joint_loss


def made(channels=4, cells=3, dtype=torch.float64, seed=0, **keywords):
    torch.manual_seed(seed)
    net = Supernet(channels, cells, 5, **keywords).to(dtype)
    return net, torch.randn(6, 3, 8, 8, dtype=dtype), torch.arange(6) % 5


def mixture(dtype=torch.float64, seed=1):
    return torch.randn(TABLE, generator=torch.Generator().manual_seed(seed)).to(dtype).softmax(-1).requires_grad_()


def gradients(out, labels, inputs):
    return torch.autograd.grad(joint_loss(out, labels), inputs, allow_unused=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 1e-4)])
@pytest.mark.parametrize("cells", [3, 4])
def test_soft_is_the_sum_over_eight_operations(dtype, tolerance, cells):
    net, x, labels = made(cells=cells, dtype=dtype)
    Z = mixture(dtype)
    parameters = dict(net.named_parameters())
    ours = net(x, Z)
    theirs = plain.logits(x, parameters, Z, cells, net.exits)
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=tolerance, rtol=0)
    inputs = [Z, *parameters.values()]
    wanted = gradients(theirs, labels, inputs)
    largest = max(float(g.abs().max()) for g in wanted if g is not None)
    for one, other in zip(gradients(ours, labels, inputs), wanted, strict=True):
        assert other is not None
        assert (one - other).abs().max() <= tolerance * largest


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_soft_with_a_one_hot_sample_is_the_single_path_bit_for_bit(dtype, seed):
    net, x, labels = made(dtype=dtype)
    choice = torch.randint(0, 8, TABLE[:2], generator=torch.Generator().manual_seed(seed))
    choice[0, :2] = 0  # a node that nothing reaches
    Z = F.one_hot(choice, 8).to(dtype)
    soft, single = net(x, Z), net.chosen(x, choice.tolist())
    assert all(torch.equal(a, b) for a, b in zip(soft, single, strict=True))
    parameters = list(net.parameters())
    evaluated = 0
    for a, b in zip(gradients(soft, labels, parameters), gradients(single, labels, parameters), strict=True):
        if b is None:
            assert not a.any()
        else:
            evaluated += 1
            assert torch.allclose(a, b, atol=1e-6 if dtype == torch.float32 else 1e-12)
    assert 10 < evaluated < len(parameters) / 2


def test_soft_tends_to_the_single_path_as_the_temperature_falls():
    net, x, _ = made()
    logits = torch.zeros(TABLE, dtype=torch.float64)
    noise = gumbel(logits, torch.Generator().manual_seed(4))
    single = torch.stack(net.chosen(x, hard_choice(logits, noise).tolist()))
    apart = []
    for temperature in (1, 0.1, 0.01, 1e-4):
        soft = torch.stack(net(x, concrete(logits, noise, temperature)))
        apart.append(float((soft - single).detach().abs().max()))
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 1e-9 < apart[0]


def test_gates_change_no_bit_and_carry_the_gradient_of_their_operation():
    net, x, labels = made()
    choice = torch.randint(1, 8, TABLE[:2], generator=torch.Generator().manual_seed(2)).tolist()
    gates = torch.ones(TABLE[:2], dtype=torch.float64, requires_grad=True)
    gated = net.chosen(x, choice, gates)
    assert all(torch.equal(a, b) for a, b in zip(gated, net.chosen(x, choice), strict=True))
    (g,) = gradients(gated, labels, [gates])
    Z = F.one_hot(torch.tensor(choice), 8).double().requires_grad_()
    (wanted,) = gradients(net(x, Z), labels, [Z])
    assert torch.allclose(g, wanted.gather(-1, torch.tensor(choice)[..., None]).squeeze(-1), atol=1e-10)


@pytest.mark.parametrize("soft", [True, False])
def test_computing_cells_again_changes_nothing_but_the_memory(soft):
    one, x, labels = made()
    other, _, _ = made(recompute=True)
    found = []
    for net in (one, other):
        out = net(x, mixture()) if soft else net.chosen(x, [[4] * 14, [5] * 14])
        found.append(gradients(out, labels, list(net.parameters())))
    assert all(a is b is None or torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert 1.5 * activation_bytes(other, 8, 3) < activation_bytes(one, 8, 3)


def test_batch_statistics_are_not_remembered_and_estimated_ones_are_those_of_all_batches():
    net, x, _ = made()
    choice = [[4] * 14, [1] * 14]
    state = {name: t.clone() for name, t in net.named_buffers()}
    net.chosen(x, choice)
    assert all(torch.equal(t, state[name]) for name, t in net.named_buffers())
    use_statistics(net, "estimate")
    for batch in (x[:3], x[3:]):
        net.chosen(batch, choice)
    stem = net.stem.norm
    maps = net.stem.conv(x)
    assert torch.allclose(stem.running_mean, maps.mean((0, 2, 3)))
    halves = torch.stack([maps[:3].var((0, 2, 3)), maps[3:].var((0, 2, 3))]).mean(0)
    assert torch.allclose(stem.running_var, halves)
    use_statistics(net, "fixed")
    alone = torch.stack([torch.stack(net.chosen(x[i : i + 1], choice)) for i in range(6)])
    together = torch.stack(net.chosen(x, choice))
    assert torch.allclose(alone[:, :, 0].transpose(0, 1), together)


def test_what_cannot_be_is_said():
    net, _, _ = made()
    with pytest.raises(ValueError, match="nearest sides to 10"):
        net(torch.zeros(1, 3, 10, 10, dtype=torch.float64), mixture())
    with pytest.raises(ValueError, match="classes must be"):
        Supernet(4, 3, 1)


def test_one_exit_is_one_head():
    net, x, _ = made(exits="end")
    assert len(net(x, mixture())) == 1


def test_bfloat16_stays_near():
    net, x, labels = made(dtype=torch.float32)
    Z = mixture(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        half = net(x, Z)
    whole = net(x, Z)
    (g,), (wanted,) = (gradients([o.float() for o in out], labels, [Z]) for out in (half, whole))
    assert torch.nn.functional.cosine_similarity(g.flatten(), wanted.flatten(), dim=0) > 0.95
