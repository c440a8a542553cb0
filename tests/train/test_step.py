import pytest
import torch
from tests.train.cases import darts, linear, same, state_of

from quorate.store.run import InputSpec
from quorate.train import Training
from quorate.train.augment import Augmentation, augmentation_for
from quorate.train.optim import make_optimiser
from quorate.train.step import autocast_for, make_step

GREY, COLOUR = InputSpec(8, 8, 1, (0.5,), (0.25,)), InputSpec(8, 8, 3, (0.5,) * 3, (0.25,) * 3)
IMAGES = torch.randint(256, (12, 8, 8, 1), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 2
PLAIN = Augmentation(0, False, 0)


def stepped(learner, training, spec, how=PLAIN, steps=3):
    step = make_step(learner, make_optimiser(learner), training, spec, how, torch.Generator().manual_seed(0))
    tallies = [step(IMAGES, LABELS, 0.1) for _ in range(steps)]
    return state_of(learner), tallies


def test_a_step_is_loss_gradient_and_descent():
    learner, twin = linear(), linear()
    stepped(learner, Training(clip=0), GREY, steps=1)
    x = ((IMAGES.permute(0, 3, 1, 2) / 255) - 0.5) / 0.25
    torch.nn.functional.cross_entropy(twin(x)[0], LABELS).backward()
    for (name, got), before in zip(learner.named_parameters(), twin.parameters(), strict=True):
        wanted = before - 0.1 * (before.grad + 3e-4 * before)
        assert torch.allclose(got, wanted, atol=1e-6), name


def test_in_pieces_it_is_the_same_where_samples_do_not_meet():
    whole, _ = stepped(linear(), Training(batch=12), GREY)
    pieces, _ = stepped(linear(), Training(batch=12, accumulate=3), GREY)
    assert all(torch.allclose(whole[name], pieces[name], atol=1e-6) for name in whole)


def test_the_tally_counts_losses_and_right_votes():
    _, (first, *_) = stepped(darts(), Training(exit_weights=(0.5, 2.0)), COLOUR)
    joint, early, last, right_early, right_last = first.tolist()
    assert joint == pytest.approx(0.5 * early + 2 * last, rel=1e-5)
    assert 0 <= right_early <= 12
    assert right_last == int(right_last)


def test_the_loss_falls_on_one_batch():
    _, tallies = stepped(darts(), Training(), COLOUR, steps=30)
    assert tallies[-1][0] < 0.5 * tallies[0][0]


def test_mixed_precision_keeps_weights_in_full_and_comes_close():
    full, _ = stepped(darts(), Training(precision="float32"), COLOUR)
    mixed, _ = stepped(darts(), Training(precision="bfloat16"), COLOUR)
    assert not same(full, mixed)
    for name, tensor in mixed.items():
        assert tensor.dtype == full[name].dtype
        assert torch.allclose(tensor, full[name], atol=0.2), name


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_same_generator_gives_the_same_bits(precision):
    training, how = Training(precision=precision), augmentation_for(8, mirrored=True)
    (one, _), (other, _) = (stepped(darts(), training, COLOUR, how) for _ in range(2))
    assert same(one, other)


@pytest.mark.parametrize("native", [False, True])
def test_half_precision_is_taken_where_it_pays_or_is_asked_for(native, monkeypatch):
    monkeypatch.setattr("quorate.train.step._has_bfloat16", lambda: native)
    cpu = torch.device("cpu")
    for precision, side, wanted in [
        ("auto", 32, native),
        ("auto", 8, False),
        ("float32", 32, False),
        ("bfloat16", 8, True),
    ]:
        with autocast_for(precision, cpu, side):
            assert torch.is_autocast_enabled("cpu") == wanted


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
def test_a_compiled_step_comes_close():
    plain, _ = stepped(linear(), Training(), GREY)
    compiled, _ = stepped(linear(), Training(compile=True), GREY)
    assert all(torch.allclose(plain[name], compiled[name], atol=1e-5) for name in plain)
