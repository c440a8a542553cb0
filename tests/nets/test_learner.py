import pytest
import torch
from torch import nn

from quorate.nets import DARTS_V2, DartsLearner, Learner, align, cascade, make_head


def test_a_cascade_passes_its_input_on():
    models = [nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(9, 3))]
    learner = cascade(models)
    x = torch.randn(5, 4)
    assert (learner.num_exits, learner.classes, learner.chained) == (2, 3, False)
    state, logits = learner.branches[0](x)
    assert state is x
    assert torch.equal(logits, models[0](x))
    (last,) = learner.branches[1](x)
    assert torch.equal(last, models[1](x))
    assert all(torch.equal(a, b) for a, b in zip(learner(x), (logits, last), strict=True))


def test_a_learner_in_a_cascade_stands_for_its_last_exit():
    inner = DartsLearner(DARTS_V2, 2, 4, 3).eval()
    learner = cascade([nn.Sequential(nn.Flatten(), nn.Linear(768, 3)), inner]).eval()
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(learner(x)[1], inner(x)[-1])


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, a, b):
        return {"loss": None, "logits": self.layer(a + b)}


def test_several_inputs_by_name_or_by_position():
    model = TwoInputs()
    a, b = torch.randn(2, 4), torch.randn(2, 4)
    named = cascade([model, model], inputs=["b", "a"])
    assert torch.equal(named({"a": a, "b": b})[0], model(a, b)["logits"])
    assert torch.equal(cascade([model])((a, b))[0], cascade([model])(a, b)[0])
    with pytest.raises(ValueError, match="reads b, a, got tensors named a"):
        named({"a": a})
    with pytest.raises(ValueError, match="reads a tensor or a tuple"):
        cascade([model])({"a": a, "b": b})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cascade([]), "at least one model, got none"),
        (lambda: cascade([nn.ReLU()]), "pass classes="),
        (lambda: cascade([nn.Linear(4, 3), nn.Linear(4, 2)]), "same number of classes"),
        (lambda: cascade([nn.Linear(4, 1)]), "classes must be at least 2, .* got 1"),
        (lambda: Learner([], 3), "at least one branch"),
        (lambda: align([]), "at least one learner"),
        (lambda: align([cascade([nn.Linear(4, 3)]), cascade([nn.Linear(4, 2)])]), r"same classes, got \[2, 3\]"),
        (lambda: make_head((2, 3, 4, 5, 6), 10), "a map .* a sequence .* or a vector"),
        (lambda: make_head((2, 3), 1), "classes must be at least 2"),
        (lambda: make_head((2, 3, 4), 5, token="last"), "'mean' or 'first', got 'last'"),
    ],
)
def test_what_cannot_be(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_one_model_is_not_a_sequence():
    with pytest.raises(TypeError, match=r"got one Sequential; write \[model\]"):
        cascade(nn.Sequential(nn.Linear(4, 3)))


def test_alignment_at_the_last_exit():
    long, short = DartsLearner(DARTS_V2, 2, 8, 10), DartsLearner(DARTS_V2, 2, 2, 10)
    lattice = align([short, long])
    assert [[branch is None for branch in row] for row in lattice] == [[True, False], [False, False], [False, False]]
    assert lattice[2][0] is short.branches[1]


def test_heads_for_maps_sequences_and_vectors():
    x = torch.randn(2, 6, 5, 5)
    head = make_head(x.shape, 3)
    assert torch.allclose(head(x), head.linear(x.mean((2, 3))))
    sequence = torch.randn(2, 7, 6)
    first = make_head(sequence.shape, 3, token="first")
    assert torch.allclose(first(sequence), first(torch.cat([sequence[:, :1], sequence[:, 1:] * 9], 1)))
    mean = make_head(sequence.shape, 3)
    assert torch.allclose(mean(sequence), mean(sequence.flip(1)), atol=1e-6)
