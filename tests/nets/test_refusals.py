"""Clear errors for what callers and forward passes may do."""

from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from quorate.nets import DARTS_V2, DartsLearner, attach_exits, cascade, count_macs

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
Pair = namedtuple("Pair", ["x", "k"])


@dataclass
class Record:
    x: torch.Tensor
    k: int


class Make(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(6, 6)

    def forward(self, x):
        return self.kind(self.layer(x), 2)


class Use(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, p):
        return self.layer(p.x * p.k)


@pytest.mark.parametrize("exit_", ["0", "1"])
def test_named_tuples_are_passed_as_they_are(exit_):
    model = nn.Sequential(nn.Linear(6, 6), Make(Pair), Use()).eval()
    learner = attach_exits(model, [exit_], classes=3, sample=X).eval()
    assert torch.equal(learner(X)[-1], model(X))


@pytest.mark.parametrize("exit_", ["0", "1"])
def test_other_containers_are_refused_by_name(exit_):
    model = nn.Sequential(nn.Linear(6, 6), Make(Record), Use())
    with pytest.raises(ValueError, match=r"the forward of Sequential passes tensors in a Record from one step"):
        attach_exits(model, [exit_], classes=3, sample=X)


def test_a_stage_may_stand_twice():
    stage = nn.Linear(6, 6)
    learner = attach_exits([stage, stage], classes=3, sample=X).eval()
    state, _ = learner.branches[0](X)
    assert torch.equal(state, stage(X))
    assert [len(out) for out in learner(X)] == [4, 4]


class Named(nn.Module):
    def forward(self, x):
        return {"hidden": x}


def test_a_stage_gives_tensors():
    with pytest.raises(TypeError, match="stage 0 must give a tensor or a tuple of tensors, got dict"):
        attach_exits([Named(), nn.Linear(6, 3)], classes=3, sample=X)


class Listing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x):
        x = self.layer(x)
        with torch._C.DisableTorchFunction():
            return x * int((x > 0).sum())


def test_data_dependence_that_no_function_shows():
    with pytest.raises(ValueError, match="cannot be cut: .* depends on the data, not only on its shape"):
        attach_exits(nn.Sequential(Listing(), nn.Linear(6, 3)), ["0.layer"], classes=3, sample=X)


SHARED = SimpleNamespace(layer=nn.Linear(6, 6))
MODEL = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 3))
TWICE = nn.Sequential(SHARED.layer, nn.Linear(6, 6), SHARED.layer)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: DartsLearner(DARTS_V2, 2, 4, -1), ValueError, "classes must be at least 2, a whole number, got -1"),
        (lambda: DartsLearner(DARTS_V2, 2, 4, 10.0), ValueError, "classes must be .* got 10.0"),
        (lambda: DartsLearner(DARTS_V2, 2, 2.5), ValueError, "cells must be at least 1, a whole number, got 2.5"),
        (lambda: DartsLearner(DARTS_V2, True, 4), ValueError, "channels must be at least 1, a whole number, got True"),
        (lambda: DartsLearner(DARTS_V2, 2, 4, exits=None), TypeError, "a list of cells, got None"),
        (lambda: attach_exits(MODEL, [0], classes=3, sample=X), TypeError, "names of submodules.*got 0"),
        (lambda: attach_exits(MODEL, ["0"], classes=3.0, sample=X), ValueError, "classes must be .* got 3.0"),
        (
            lambda: attach_exits(MODEL, ["0"], classes=3, sample=X, heads=[lambda x: x]),
            TypeError,
            "heads must be modules, got function",
        ),
        (
            lambda: attach_exits(nn.Sequential(nn.LazyLinear(6), nn.Linear(6, 3)), ["0"], classes=3, sample=X),
            ValueError,
            "layers without weights yet .* run it once first",
        ),
        (lambda: attach_exits(TWICE, ["2"], classes=3, sample=X), ValueError, "'2' is the one also named '0'"),
        (lambda: cascade(["a"]), TypeError, "the models of a cascade must be modules, got str"),
        (
            lambda: count_macs(cascade([nn.Linear(8, 3)]), (9,)),
            ValueError,
            r"cannot read such an input: .*\[\(1, 9\)\]",
        ),
        (lambda: count_macs(cascade([nn.Linear(8, 3)]), (True,)), ValueError, "positive integers"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.filterwarnings("ignore")
def test_a_scripted_network_is_refused():
    with pytest.raises(TypeError, match="a scripted network cannot be cut"):
        attach_exits(torch.jit.script(MODEL), ["0"], classes=3, sample=X)


def test_a_cascade_checks_the_classes_it_guessed():
    model = nn.Sequential(nn.Linear(6, 5), nn.Unflatten(1, (5, 1)), nn.Conv1d(5, 3, 1), nn.Flatten())
    with pytest.raises(ValueError, match=r"must give logits of shape \[B, 5\], got shape \(4, 3\); pass classes="):
        cascade([model])(X)
    assert cascade([model], classes=3)(X)[0].shape == (4, 3)
