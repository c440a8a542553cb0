"""Cutting small networks written here; those of others are in test_others.py."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets import attach_exits, count_macs

X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Skips over exits, functional calls, constants of the batch, tokens and positions of its own, dropout by mode."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.one = nn.Conv2d(8, 8, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.register_buffer("positions", torch.randn(65, 8))
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        x = F.relu(self.stem(x), inplace=True)
        first = x
        x = self.one(x) + first
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        where = self.positions * 2
        for block in self.blocks:
            x = x + F.gelu(block(x + where))
            x = F.dropout(x, 0.5, training=self.training)
        x = x + first.mean((2, 3))[:, None]
        return self.fc(self.norm(x)[:, 0].view(len(x), 8))


def chained(learner, x):
    """Branch by branch, keeping only some samples at each cut, as an engine does."""
    state, votes, keep = learner.first_state(x), [], torch.arange(len(learner.first_state(x)[0]))
    for branch in learner.branches:
        *state, logits = branch(*state)
        votes.append((keep, logits))
        chosen = torch.arange(0, len(keep), 2) if len(keep) > 1 else torch.arange(1)
        state, keep = [s[chosen] for s in state], keep[chosen]
    return votes


def test_a_cut_network_gives_what_it_gave_and_shares_its_weights():
    model = Net().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    learner = attach_exits(model, ["stem", "one", "blocks.0", "blocks.1"], classes=5, sample=X)
    assert model.training
    assert learner.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert learner.num_exits == 5
    learner.eval(), model.eval()
    whole = learner(X)
    assert torch.equal(whole[-1], model(X))
    for (keep, part), full in zip(chained(learner, X), whole, strict=True):
        assert torch.allclose(part, full[keep], atol=1e-6)
    assert {id(p) for p in model.parameters()} <= {id(p) for p in learner.parameters()}
    model.fc.weight.data.zero_()
    assert torch.equal(learner(X)[-1], model(X))


@pytest.mark.parametrize("rows", [1, 2, 3, 9])
def test_any_batch_size_runs(rows):
    model = Net().eval()
    learner = attach_exits(model, ["one", "blocks.0"], classes=5, sample=X).eval()
    x = torch.randn(rows, 3, 8, 8)
    assert torch.allclose(learner(x)[-1], model(x), atol=1e-6)


def test_training_and_evaluation_both_behave():
    model = Net()
    learner = attach_exits(model, ["one", "blocks.1"], classes=5, sample=X)
    learner.train(), model.train()
    outputs = []
    for network in (model, lambda x: learner(x)[-1]):
        torch.manual_seed(1)
        outputs.append(network(X))
    assert torch.allclose(*outputs, atol=1e-6)
    learner.eval()
    assert torch.equal(learner(X)[-1], learner(X)[-1])
    assert not model.stem.training


def test_every_parameter_gets_the_gradient_of_the_whole():
    model = Net().eval()
    learner = attach_exits(model, ["stem", "blocks.0"], classes=5, sample=X)
    model(X).logsumexp(1).sum().backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    learner(X)[-1].logsumexp(1).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter.grad, wanted[name], atol=1e-5), name


def test_the_head_is_replaced_in_the_learner_only():
    model = Net(classes=7).eval()
    before = model(X)
    learner = attach_exits(model, ["one"], classes=3, sample=X)
    assert [logits.shape for logits in learner(X)] == [(4, 3), (4, 3)]
    assert torch.equal(model(X), before)
    assert model.fc.out_features == 7
    held = {id(p) for p in learner.parameters()}
    assert id(model.norm.weight) in held
    assert id(model.fc.weight) not in held


class Deep(nn.Module):
    """Its head is a module with a linear layer inside, and it gives a dictionary."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 6, 3)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 9))
        )

    def forward(self, x):
        features = self.body(x)
        return {"features": features, "logits": self.head(features)}


def test_a_linear_layer_inside_the_head_is_replaced_and_the_rest_shared():
    model = Deep().eval()
    learner = attach_exits(model, ["body"], classes=4, sample=X).eval()
    assert learner(X)[-1].shape == (4, 4)
    assert model(X)["logits"].shape == (4, 9)
    assert id(model.head[2][0].weight) in {id(p) for p in learner.parameters()}
    own = attach_exits(model, ["body"], classes=9, sample=X).eval()
    assert torch.equal(own(X)[-1], model(X)["logits"])


def test_a_network_without_a_head_gets_one():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3))
    learner = attach_exits(model, ["1"], classes=5, sample=X)
    assert [logits.shape for logits in learner(X)] == [(4, 5), (4, 5)]
    assert torch.allclose(learner.branches[1].body(learner.branches[0](X)[0])[0], model(X), atol=1e-6)


def test_freezing_leaves_heads_only():
    model = Net()
    learner = attach_exits(model, ["one", "blocks.0"], classes=5, sample=X, freeze=True).train()
    trained = {name for name, p in learner.named_parameters() if p.requires_grad}
    assert all(".head." in name or name.endswith(("fc.weight", "fc.bias")) for name in trained)
    assert len(trained) == 2 + 4 + 2
    before = model.stem[1].running_mean.clone()
    learner(X)[0].sum().backward()
    assert torch.equal(model.stem[1].running_mean, before)
    assert learner.training
    assert learner.branches[0].head.training


class TimeFirst(nn.Module):
    """[T, B, C] inside."""

    def __init__(self):
        super().__init__()
        self.into, self.cell, self.out = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        x = self.into(x).transpose(0, 1)
        x = torch.tanh(self.cell(x))
        return self.out(x.mean(0))


class SamplesLast(nn.Module):
    """[T, C, B] inside, where the cut is."""

    def __init__(self):
        super().__init__()
        self.into, self.turn, self.out = nn.Linear(3, 6), Turn(), nn.Linear(6, 4)

    def forward(self, x):
        return self.out(self.turn(self.into(x)).mean(0).T)


class Turn(nn.Module):
    def forward(self, x):
        return x.permute(1, 2, 0)


class Windows(nn.Module):
    """Windows in the batch dimension while the exit is passed."""

    def __init__(self):
        super().__init__()
        self.into, self.inner, self.out = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        b, t, _ = x.shape
        x = self.into(x).view(b * 2, t // 2, 6)
        x = self.inner(x) + x
        return self.out(x.view(b, t, 6).mean(1))


INNER = {TimeFirst: "cell", SamplesLast: "turn", Windows: "inner"}


@pytest.mark.parametrize("kind", INNER)
def test_samples_come_first_between_branches_whatever_the_network_does(kind):
    model, x = kind().eval(), torch.randn(4, 6, 3)
    learner = attach_exits(model, ["into"], classes=4, sample=x)
    for other in (x, torch.randn(3, 6, 3)):
        assert torch.allclose(learner(other)[-1], model(other), atol=1e-6)
    deeper = attach_exits(model, [INNER[kind]], classes=4, sample=x, heads=[Flat()])
    *state, _ = deeper.branches[0](x)
    assert all(len(tensor) == len(x) for tensor in state)
    *_, votes = deeper.branches[1](*(tensor[1:] for tensor in state))
    assert torch.allclose(votes, model(x)[1:], atol=1e-6)


def test_heads_read_samples_first():
    x = torch.randn(4, 6, 3)
    learner = attach_exits(TimeFirst().eval(), ["cell"], classes=4, sample=x, token="mean")
    assert learner(x)[0].shape == (4, 4)
    with pytest.raises(ValueError, match=r"the exit 'inner' shows a tensor of shape \(14, 3, 6\) for 7 samples"):
        attach_exits(Windows(), ["inner"], classes=4, sample=x)


class Flat(nn.Module):
    def forward(self, x):
        return torch.zeros(len(x), 4)


def test_heads_of_ones_own_and_several_inputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layer, self.fc = nn.Embedding(9, 6), nn.Linear(6, 6), nn.Linear(6, 4)

        def forward(self, ids, mask):
            x = self.layer(self.embed(ids)) * mask[..., None]
            return self.fc(x.sum(1) / mask.sum(1, keepdim=True))

    model, ids, mask = Two().eval(), torch.randint(0, 9, (3, 5)), torch.ones(3, 5)
    mask[1, 3:] = 0
    head = nn.Sequential(nn.Flatten(), nn.Linear(30, 4))
    for sample in ((ids, mask), {"ids": ids, "mask": mask}):
        learner = attach_exits(model, ["layer"], classes=4, sample=sample, heads=[head], token="first")
        assert learner.branches[0].head is head
        assert torch.equal(learner(sample)[-1], model(ids, mask))
        assert len(count_macs(learner, sample)) == 2
    assert torch.equal(learner(ids, mask)[-1], model(ids, mask))


def test_stages_as_they_are():
    stages = [
        nn.Conv2d(3, 4, 3),
        nn.Sequential(nn.ReLU(), nn.Conv2d(4, 6, 3)),
        nn.Sequential(nn.Flatten(), nn.Linear(96, 5)),
    ]
    learner = attach_exits(stages, classes=5, sample=X)
    assert torch.equal(learner(X)[-1], nn.Sequential(*stages)(X))
    assert [type(branch.head).__name__ for branch in learner.branches] == ["MapHead", "MapHead", "Identity"]
    replaced = attach_exits(stages, classes=3, sample=X)
    assert replaced(X)[-1].shape == (4, 3)
    frozen = attach_exits(stages, classes=5, sample=X, freeze=True)
    assert all(p.requires_grad == (".head." in n or n.endswith((".1.weight", ".1.bias"))) for n, p in
               frozen.branches[2].named_parameters())  # fmt: skip


def test_stages_may_pass_several_tensors():
    class Fork(nn.Module):
        def forward(self, x):
            return x.flatten(1), x.mean((2, 3))

    class Join(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(195, 4)

        def forward(self, a, b):
            return self.fc(torch.cat([a, b], 1))

    learner = attach_exits([Fork(), Join()], classes=4, sample=X)
    *state, _ = learner.branches[0](X)
    assert [tensor.shape for tensor in state] == [(4, 192), (4, 3)]
    assert learner(X)[1].shape == (4, 4)


def test_an_exit_inside_an_exit():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), nn.Flatten(), nn.Linear(144, 5)).eval()
    learner = attach_exits(model, ["0.0", "0"], classes=5, sample=X)
    assert learner.num_exits == 3
    assert torch.equal(learner(X)[-1], model(X))


def test_a_learner_can_be_copied_saved_and_loaded():
    learner = attach_exits(Net(), ["one"], classes=5, sample=X).eval()
    twin = copy.deepcopy(learner)
    twin.load_state_dict(learner.state_dict())
    assert torch.equal(twin(X)[-1], learner(X)[-1])


class Branching(nn.Module):
    """Four ways not to be cut."""

    def __init__(self, how):
        super().__init__()
        self.how, self.a, self.b, self.fc = how, nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 4)
        self.unused = nn.Linear(3, 3)

    def forward(self, x):
        x = self.a(x)
        if self.how == "data" and x.sum() > 0:
            x = -x
        if self.how == "item":
            x = x * x.max().item()
        if self.how == "shape" and x.shape[0] > 8:
            x = self.b(x)
        if self.how == "mode" and self.training:
            x = torch.tanh(x)
        if self.how == "nonzero":
            x = x + x.nonzero().sum()
        if self.how == "scale":
            x = x / float(x.shape[0])
        if self.how == "pairs":
            x = x + torch.zeros(x.shape[0] ** 2, 3)[: x.shape[0]]
        if self.how == "twice":
            x = self.b(self.b(x))
        weight = x.T @ x if self.how == "mixes" else None
        x = self.b(x)
        return self.fc(x if weight is None else x @ weight)


@pytest.mark.parametrize(
    ("how", "exits", "message"),
    [
        ("data", ["a"], r"__bool__\(\) in the forward of Branching depends on the data.*attach_exits\(\[stage"),
        ("item", ["a"], r"item\(\) in the forward of Branching depends on the data"),
        ("nonzero", ["a"], r"nonzero\(\) in the forward of Branching depends on the data"),
        ("shape", ["a"], "its forward pass changes with the batch size"),
        ("scale", ["a"], "a constant that changes with the batch size"),
        ("pairs", ["a"], r"zeros\(\) in the forward of Branching has a constant that changes with the batch size"),
        ("mode", ["a"], "its forward pass changes in training: "),
        ("twice", ["b"], "cannot be cut at 'b': its forward pass calls that submodule twice"),
        ("", ["unused"], "cannot be cut at 'unused': its forward pass never calls that submodule"),
        ("mixes", ["b"], r"gives a tensor of shape \(3, 3\) that depends on the input and has no row per sample"),
        ("", ["b", "a"], r"in the order in which they run, got \['b', 'a'\]; use \['a', 'b'\]"),
        ("", ["a", "fc"], "nothing runs after the exit 'fc'; the network's end is an exit already"),
        ("", ["a", "a"], "each exit must be named once, got 'a' twice"),
        ("", ["aa"], "no submodule 'aa'; nearest: a"),
        ("", [], "exits must name submodules"),
        ("", "a", "exits must name submodules"),
        ("", None, "exits must name submodules"),
    ],
)
def test_what_cannot_be_cut_is_refused(how, exits, message):
    with pytest.raises(ValueError, match=message):
        attach_exits(Branching(how), exits, classes=4, sample=torch.randn(2, 3))


def test_data_dependent_flow_inside_a_branch_is_named_too():
    class Inner(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = nn.Sequential(nn.Linear(3, 3), Inner(), nn.Linear(3, 4))
    with pytest.raises(ValueError, match=r"__bool__\(\) in submodule '1' depends on the data"):
        attach_exits(model, ["0"], classes=4, sample=torch.randn(2, 3))
    stages = attach_exits([model[0], nn.Sequential(model[1], model[2])], classes=4, sample=torch.randn(2, 3))
    assert stages.num_exits == 2


def test_one_exit_must_follow_another():
    model = nn.Sequential(nn.Sequential(nn.Linear(3, 3)), nn.Linear(3, 4))
    with pytest.raises(ValueError, match="nothing runs between the exits '0.0' and '0'"):
        attach_exits(model, ["0.0", "0"], classes=4, sample=torch.randn(2, 3))


def test_a_network_that_mixes_samples_is_refused():
    class Mixes(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.fc = nn.Linear(3, 3), nn.Linear(3, 4)

        def forward(self, x):
            x = self.a(x)
            return self.fc(x - x.mean(0, keepdim=True))

    with pytest.raises(ValueError, match="or mixes samples"):
        attach_exits(Mixes(), ["a"], classes=4, sample=torch.randn(3, 3))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"sample": [1]}, TypeError, "sample must be a tensor"),
        ({"sample": ()}, TypeError, "sample must be a tensor"),
        ({"sample": torch.zeros(0, 3, 8, 8)}, ValueError, "at least one, got"),
        ({"sample": (X, X[:2])}, ValueError, "same number of rows"),
        ({"sample": X[:, :2]}, ValueError, r"cannot read tensors like the sample, here of shape \[\(7, 2, 8, 8\)\]: "),
        ({"sample": (X, X)}, ValueError, "cannot read tensors like the sample"),
        ({"model": "resnet18"}, TypeError, "a module or a sequence of stages, got str"),
        ({"classes": 1}, ValueError, "classes must be at least 2"),
        ({"token": "last"}, ValueError, "'mean' or 'first'"),
        ({"heads": []}, ValueError, "heads must be one per exit, 1, got 0"),
    ],
)
def test_other_mistakes(arguments, error, message):
    with pytest.raises(error, match=message):
        attach_exits(**{"model": Net(), "exits": ["one"], "classes": 5, "sample": X, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"exits": ["0"]}, ValueError, "so leave exits out"),
        ({"model": []}, ValueError, "stages must be modules, at least one"),
        ({"sample": {"x": X}}, TypeError, "pass the sample as a tuple"),
        ({"heads": [nn.Flatten()] * 3}, ValueError, "heads must be one per exit, 2, got 3"),
    ],
)
def test_mistakes_with_stages(arguments, error, message):
    stages = [nn.Conv2d(3, 4, 3), nn.Flatten()]
    with pytest.raises(error, match=message):
        attach_exits(**{"model": stages, "classes": 5, "sample": X, **arguments})
