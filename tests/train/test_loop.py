import math

import pytest
import torch
from tests.train.cases import QUICK, darts, linear, same, state_of, toy
from torch import nn

from quorate.data import load
from quorate.nets import attach_exits, cascade
from quorate.store.run import InputSpec
from quorate.train import DivergedError, Training, fit, input_for
from quorate.train.augment import Augmentation
from quorate.train.loop import augmentation_of
from quorate.train.optim import learning_rate_at
from quorate.train.state import epoch_order


def test_what_can_be_learned_is_learned():
    fitted = fit(linear(), toy(), Training(epochs=10, batch=8, pad=0, cutout=0))
    assert fitted.accuracy["test"] == (1.0,)
    assert fitted.history[-1]["loss"][0] < fitted.history[0]["loss"][0]


def test_every_image_is_seen_once_an_epoch_but_for_a_remainder():
    seen = []
    learner = linear()
    learner.register_forward_pre_hook(lambda module, x: seen.append(len(x[0])) if module.training else None)
    fit(learner, toy(100), Training(epochs=2, batch=32, calibration=0.0))
    assert seen == [32, 32, 32, 32][: 2 * (80 // 32)]
    orders = [epoch_order(80, 0, 0, epoch) for epoch in (0, 1)]
    assert all(sorted(order.tolist()) == list(range(80)) for order in orders)
    assert not torch.equal(*orders)


def test_a_batch_larger_than_the_data_is_all_of_it():
    assert len(fit(linear(), toy(20), Training(epochs=1)).history) == 1


def test_the_history_says_what_happened():
    training = Training(epochs=3, batch=16, drop_path=0.3)
    rows = fit(darts(), toy(), training).history
    assert [row["epoch"] for row in rows] == [0, 1, 2]
    assert [row["drop_path"] for row in rows] == pytest.approx([0.0, 0.1, 0.2])
    steps = 58 // 16
    assert rows[0]["rate"] == learning_rate_at(steps - 1, 3 * steps, 0.025, 0.001)
    assert all(len(row[name]) == 2 for row in rows for name in ("loss", "accuracy", "calibration_accuracy"))


def test_without_calibration_images_it_trains_all_the_same():
    fitted = fit(linear(), toy(), Training(epochs=1, batch=16, calibration=0))
    assert list(fitted.accuracy) == ["test"]
    assert fitted.history[0]["calibration_accuracy"] is None


@pytest.mark.parametrize("rate", [1e4, 1e30])
def test_divergence_names_the_step_and_what_to_try(tmp_path, rate):
    training = Training(epochs=5, batch=16, rate=rate, clip=0, checkpoint_seconds=0)
    with pytest.raises(DivergedError, match=r"learner 3: the loss became \S+ by step \d+ .*Try a smaller rate"):
        fit(linear(), toy(), training, number=3, folder=tmp_path)
    assert not (tmp_path / "weights.safetensors").exists()


def test_the_average_is_what_is_kept():
    plain, kept = linear(), linear()
    fit(plain, toy(), QUICK)
    fit(kept, toy(), QUICK.model_copy(update={"average": 0.9}))
    assert not same(state_of(plain), state_of(kept))


def frozen():
    torch.manual_seed(0)
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    return body, torch.zeros(2, 3, 8, 8)


def test_heads_alone_learn_on_a_frozen_backbone():
    model, sample = frozen()
    learner = attach_exits(model, ["2"], classes=2, sample=sample, freeze=True)
    before = state_of(model)
    fit(learner, toy(), QUICK)
    moved = {name for name, tensor in state_of(model).items() if not torch.equal(tensor, before[name])}
    assert moved == {"4.weight", "4.bias"}


def test_a_backbone_of_a_smaller_rate_moves_less():
    moves = []
    for factor in (1.0, 0.01):
        model, sample = frozen()
        learner = attach_exits(model, ["2"], classes=2, sample=sample)
        before = model[0].weight.detach().clone()
        fit(learner, toy(), QUICK.model_copy(update={"backbone_rate": factor}))
        moves.append((model[0].weight - before).norm().item())
    assert 0 < moves[1] < moves[0] / 20


def test_a_cascade_trains_with_a_size_and_a_normalisation_of_its_own():
    models = [nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(48, 2)),
              nn.Sequential(nn.Flatten(), nn.Linear(768, 2))]  # fmt: skip
    spec = InputSpec(16, 16, 3, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    fitted = fit(cascade(models), toy(), Training(epochs=10, batch=8, pad=0, cutout=0), spec=spec)
    assert fitted.accuracy["test"] == (1.0, 1.0)


def test_grey_digits_train_a_network_for_colours():
    data = load("digits")
    torch.manual_seed(0)
    learner = darts(classes=10)
    fitted = fit(learner, data, Training(epochs=1, batch=64))
    assert input_for(data, channels=3).channels == 3
    assert len(fitted.accuracy["calibration"]) == 2


def test_augmentation_is_the_data_sets_unless_the_training_says_otherwise():
    spec = InputSpec(28, 28, 1, (0.5,), (0.5,))
    assert augmentation_of(Training(), spec, mirrored=False) == Augmentation(3, False, 14)
    assert augmentation_of(Training(mirror=True, cutout=0, pad=1), spec, mirrored=False) == Augmentation(1, True, 0)


def test_callers_mistakes_are_said_before_anything_runs():
    with pytest.raises(ValueError, match="must tell 2 classes apart, as many as toy has, got 10"):
        fit(darts(classes=10), toy(), QUICK)
    with pytest.raises(ValueError, match="exit_weights must be one for each of 2 exits"):
        fit(darts(), toy(), QUICK.model_copy(update={"exit_weights": (1.0,)}))


def test_progress_is_told(monkeypatch):
    monkeypatch.setattr("quorate.train.loop.EVERY", 0.0)
    told = []
    fit(darts(), toy(), QUICK, listen=told.append)
    ends = [one for one in told if one.held_out]
    assert [one.epoch for one in ends] == [1, 2]
    assert ends[-1].step == ends[-1].steps == 2 * (58 // 16)
    assert all(one.speed > 0 and math.isfinite(one.loss[0]) for one in told)
    assert len(told) > len(ends)


def test_heads_learn_first_where_that_is_wished():
    def moved(epochs):
        learner = darts()
        before = state_of(learner)
        fit(learner, toy(), QUICK.model_copy(update={"epochs": epochs, "heads_first": 1}))
        assert all(p.requires_grad for p in learner.parameters())
        names = dict(learner.named_parameters())
        return {name for name, tensor in state_of(learner).items() if name in names and (tensor != before[name]).any()}

    heads = {f"branches.{e}.head.linear.{kind}" for e in (0, 1) for kind in ("weight", "bias")}
    assert moved(1) == heads
    assert moved(2) > heads
