"""Networks that once were cut wrongly without a word, or that cutting damaged."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets import attach_exits, count_macs

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


class Two(nn.Module):
    """Two layers, and whatever is done between, before and after them."""

    def __init__(self, between=lambda self, x: x, after=lambda self, x: x, width=3):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, width)
        self.between, self.after = between, after
        self.register_buffer("m", torch.ones(6))

    def forward(self, x):
        return self.after(self, self.b(self.between(self, self.a(x))))


class Aside(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.fc, self.aux = nn.Linear(6, 6), nn.Linear(6, 7), nn.Linear(6, 7)

    def forward(self, x):
        x = self.a(x)
        return self.fc(x), self.aux(x)


@pytest.mark.parametrize(
    ("model", "exits"),
    [
        (Aside(), ["a"]),
        (Two(after=lambda self, x: torch.tanh(x), width=7), ["a"]),
        (nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 7), nn.LayerNorm(7))), ["0"]),
        (Two(between=lambda self, x: self.b(x), width=6), ["a"]),
    ],
)
def test_only_the_layer_that_gives_the_output_is_replaced(model, exits):
    model.eval()
    learner = attach_exits(model, exits, classes=3, sample=X).eval()
    logits = learner(1000 * X)[-1]
    assert logits.shape == (4, 3)
    if isinstance(model, Aside):
        assert {id(p) for p in learner.parameters()}.isdisjoint({id(model.fc.weight)})
    else:  # a new head reads the output as it is
        wanted = model(1000 * X)
        assert torch.allclose(learner.branches[-1].head(wanted), logits, atol=1e-4)


@pytest.mark.parametrize("classes", [3, 4])
def test_every_exit_must_give_one_value_per_class(classes):
    model = Two()
    with pytest.raises(ValueError, match=rf"the logits of exit 0 must have shape \(4, {classes}\).*got \(4, 9\)"):
        attach_exits(model, ["a"], classes=classes, sample=X, heads=[nn.Linear(6, 9)])
    with pytest.raises(ValueError, match=r"the logits of exit 1 must have shape \(4, 3\)"):
        attach_exits([nn.Linear(6, 6), nn.Linear(6, 6)], classes=3, sample=X, heads=[nn.Linear(6, 3), nn.Linear(6, 2)])


def alone(self, x):
    return x * 5 if x.shape[0] == 1 else x


class Hidden(nn.Module):
    def forward(self, x):
        return alone(self, x)


def test_a_single_sample_is_compared_too():
    with pytest.raises(ValueError, match="changes with the batch size"):
        attach_exits(Two(between=alone), ["a"], classes=3, sample=X)
    model = nn.Sequential(nn.Linear(6, 6), Hidden(), nn.Linear(6, 3))
    with pytest.raises(ValueError, match="or mixes samples"):
        attach_exits(model, ["0"], classes=3, sample=X)


def test_only_the_number_of_samples_may_change():
    model = Two(between=lambda self, x: x[:, : x.shape[1] // 2].sum(1) / x.shape[1]).eval()
    learner = attach_exits(model, ["a"], classes=3, sample=torch.randn(2, 4, 6)).eval()
    assert learner(torch.randn(5, 4, 6))[1].shape == (5, 3)
    for run in (learner, learner.branches[0]):
        with pytest.raises(ValueError, match=r"tensors of shape \(\(4, 6\),\) without the batch, got \(\(8, 6\),\)"):
            run(torch.randn(2, 8, 6))
    with pytest.raises(ValueError, match="attach exits again"):
        count_macs(learner, (8, 6))


class Alias(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.a, self.h, self.b = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, width)

    def forward(self, x):
        x = self.a(x)
        y = x[:, :3]
        z = self.h(x)
        y.add_(1)
        return self.b(x + z)


@pytest.mark.parametrize("width", [3, 5])
def test_views_that_are_written_to_after_a_cut_are_refused(width):
    with pytest.raises(ValueError, match="cross it sharing memory, and a later step writes into it in place"):
        attach_exits(Alias(width), ["h"], classes=3, sample=X)


def reassigned(self, x):
    self.m = self.m * 0.9 + 1
    return x - self.m


def test_buffers_that_are_put_in_place_of_others_are_refused():
    model = Two(between=reassigned)
    with pytest.raises(ValueError, match="puts another tensor in place of 'm' of the network; write into it instead"):
        attach_exits(model, ["a"], classes=3, sample=X)
    assert torch.equal(model.m, torch.ones(6))


class Caching(nn.Module):
    def __init__(self):
        super().__init__()
        self.where, self.seen, self.n, self.layer = None, [], 0, nn.Linear(6, 6)

    def forward(self, x):
        if self.where is None:
            self.where = torch.arange(6.0)
        self.seen.append(x)
        self.n += 1
        return self.layer(x) + self.where


@pytest.mark.parametrize("exits", [["0"], ["1.layer"]])
def test_no_tensor_without_numbers_stays_in_the_network(exits):
    model = nn.Sequential(nn.Linear(6, 6), Caching(), nn.Linear(6, 3)).eval()
    learner = attach_exits(model, exits, classes=3, sample=X).eval()
    assert all(type(tensor) is torch.Tensor for tensor in (model[1].where, *model[1].seen))
    assert torch.equal(learner(X)[-1], model(X))


def added(self, x):
    x += 1
    return x


def rectified(self, x):
    F.relu(x, inplace=True)
    return x


class Adding(nn.Module):
    def forward(self, x):
        return added(self, x)


IN_PLACE = {
    "module": nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True), nn.Linear(6, 3)),
    "operator": Two(between=added),
    "function": Two(between=rectified),
    "hidden in a module": nn.Sequential(nn.Linear(6, 6), Adding(), nn.Linear(6, 3)),
}


@pytest.mark.parametrize("how", IN_PLACE)
def test_a_branch_writes_into_a_copy_of_its_state(how):
    model = IN_PLACE[how]
    exits = [next(iter(dict(model.named_children())))]
    learner = attach_exits(model, exits, classes=3, sample=X).train()
    sum(out.logsumexp(1).sum() for out in learner(X)).backward()
    state = learner.eval().branches[0](X)[:-1]
    kept = [tensor.clone() for tensor in state]
    first, second = (learner.branches[1](*state)[-1] for _ in range(2))
    assert torch.equal(first, second)
    assert all(torch.equal(a, b) for a, b in zip(kept, state, strict=True))
    assert torch.equal(first, model.eval()(X))


def test_the_sample_is_not_written_to():
    stages = [nn.Sequential(nn.ReLU(True), nn.Linear(6, 6)), nn.Sequential(nn.ReLU(True), nn.Linear(6, 3))]
    for model, exits in ((nn.Sequential(*stages), ["0"]), (stages, None)):
        x = X.clone()
        learner = attach_exits(model, exits, classes=3, sample=x)
        sum(out.logsumexp(1).sum() for out in learner(x)).backward()
        assert torch.equal(x, X)


def test_a_head_writes_into_a_copy():
    model = Two()
    learner = attach_exits(
        model, ["a"], classes=3, sample=X, heads=[nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 3))]
    )
    assert torch.equal(learner.eval()(X)[-1], model.eval()(X))


@pytest.mark.parametrize("staged", [True, False])
def test_modules_keep_their_own_mode(staged):
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6)), nn.Linear(6, 3)).train()
    model[0][1].eval()
    attach_exits(list(model) if staged else model, None if staged else ["0"], classes=3, sample=X)
    assert [m.training for m in model.modules()] == [True, True, True, False, True]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("staged", [True, False])
def test_new_heads_take_the_precision_of_what_they_read(dtype, staged):
    model = nn.Sequential(nn.Embedding(9, 6), nn.Flatten(), nn.Linear(24, 6), nn.Linear(6, 7)).to(dtype)
    ids = torch.randint(0, 9, (2, 4))
    parts, exits = ([model[:3], model[3:]], None) if staged else (model, ["2"])
    learner = attach_exits(parts, exits, classes=3, sample=ids)
    assert {logits.dtype for logits in learner(ids)} == {dtype}


def test_freezing_leaves_a_head_that_is_no_linear_layer():
    conv = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.randn(2, 3, 8, 8)
    named = attach_exits(conv, ["0"], classes=3, sample=x, freeze=True)
    staged = attach_exits([conv[0], conv[1:]], classes=3, sample=x, freeze=True)
    for learner in (named, staged):
        trained = {id(p) for p in learner.branches[-1].parameters() if p.requires_grad}
        assert trained == {id(conv[2].weight), id(conv[2].bias)}
    with pytest.raises(ValueError, match="with freeze=True a head must be left to train"):
        attach_exits([nn.Linear(6, 3), nn.ReLU()], classes=3, sample=X, freeze=True)


@pytest.mark.parametrize("block", [torch.inference_mode, torch.no_grad])
def test_cutting_does_not_depend_on_the_callers_mode(block):
    model = Two(between=lambda self, x: x * 2)
    with block():
        learner = attach_exits(model, ["a"], classes=3, sample=X)
    learner(X)[-1].sum().backward()
    assert model.a.weight.grad is not None
