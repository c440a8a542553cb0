import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner, attach_exits, cascade, count_macs, macs_table
from tests.by_definition import nets_darts as slow

from .cases import genotypes


@pytest.mark.parametrize(
    ("genotype", "side", "classes", "macs"),
    [
        (DARTS_V1, 32, 10, 500_987_520),
        (DARTS_V2, 32, 10, 528_359_040),
        (DARTS_V2, 32, 100, 528_410_880),
        (DARTS_V2, 16, 120, 132_157_440),
    ],
)
def test_published_networks_with_one_head(genotype, side, classes, macs):
    with torch.device("meta"):
        learner = DartsLearner(genotype, 36, 20, classes, exits="end")
    assert count_macs(learner, (3, side, side)) == (macs,)


def test_published_network_with_three_heads():
    with torch.device("meta"):
        learner = DartsLearner(DARTS_V2, 36, 20, 10)
    first, second, third = count_macs(learner, (3, 32, 32))
    assert [round(c / 1e6, 2) for c in (first, first + second, first + second + third)] == [193.43, 374.25, 528.37]


@settings(deadline=None, max_examples=25)
@given(genotypes, st.integers(1, 7), st.sampled_from(["cifar", "imagenet"]), st.integers(2, 11))
def test_any_darts_network_is_counted_as_by_hand(genotype, cells, stem, classes):
    with torch.device("meta"):
        learner = DartsLearner(genotype, 4, cells, classes, stem=stem)
    done, heads = slow.macs(genotype.normal, genotype.reduce, 4, cells, classes, 64, stem)
    ends = [done[at] for at in learner.exits]
    wanted = [b - a + heads[at] for a, b, at in zip([0, *ends], ends, learner.exits, strict=False)]
    assert list(count_macs(learner, (3, 64, 64))) == wanted


class Attention(nn.Module):
    def __init__(self, width, heads, classes):
        super().__init__()
        self.qkv, self.heads, self.out = nn.Linear(width, 3 * width), heads, nn.Linear(width, classes)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)[:, 0])


def flat(*modules):
    return nn.Sequential(*modules, nn.Flatten())


class Products(nn.Module):
    """A matrix by a vector, three times."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(8))

    def forward(self, x):
        return torch.stack([x @ self.w, torch.mv(x, self.w), x @ self.w], -1)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Bilinear(8, 8, 3)

    def forward(self, x):
        return self.layer(x, x)


T, D = 7, 12
CASES = {
    "vectors": (Products(), (8,), 3 * 8),
    "bilinear": (Twice(), (8,), 3 * 8 * 8 + 3 * 8),
    "depthwise": (flat(nn.Conv2d(6, 6, 3, padding=1, groups=6)), (6, 8, 8), 8 * 8 * 9 * 6),
    "grouped": (flat(nn.Conv2d(6, 4, 3, padding=1, groups=2)), (6, 8, 8), 8 * 8 * 9 * 3 * 4),
    "dilated": (flat(nn.Conv2d(2, 4, 3, padding=2, dilation=2, bias=False)), (2, 8, 8), 8 * 8 * 9 * 2 * 4),
    "strided": (flat(nn.Conv2d(2, 4, 5, stride=2, padding=2)), (2, 9, 9), 5 * 5 * 25 * 2 * 4),
    "one dimension": (flat(nn.Conv1d(2, 4, 3)), (2, 9), 7 * 3 * 2 * 4),
    "linear": (nn.Linear(5, 3), (5,), 15),
    "linear on a sequence": (flat(nn.Linear(D, 3)), (T, D), T * D * 3),
    "attention": (Attention(D, 3, 5), (T, D), T * D * 3 * D + 2 * T * T * D + D * 5),
    "multi-head module": (
        flat(nn.TransformerEncoderLayer(D, 3, 20, batch_first=True, dropout=0.0)),
        (T, D),
        T * D * 3 * D + 2 * T * T * D + T * D * D + 2 * T * D * 20,
    ),
    "norms and pools are free": (flat(nn.BatchNorm2d(2), nn.MaxPool2d(2), nn.ReLU()), (2, 8, 8), 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("training", [True, False])
def test_hand_counts(name, training):
    module, shape, macs = CASES[name]
    classes = module.eval()(torch.zeros(1, *shape)).shape[1]
    assert count_macs(cascade([module.train(training)], classes=classes), shape) == (macs,)
    assert module.training is training


def test_counting_runs_nothing_and_changes_nothing():
    learner = DartsLearner(DARTS_V2, 4, 4).train()
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    count_macs(learner, torch.full((5, 3, 16, 16), torch.nan))
    assert learner.training
    assert all(torch.equal(before[name], value) for name, value in learner.state_dict().items())


def test_the_batch_of_a_sample_does_not_count():
    learner = DartsLearner(DARTS_V2, 4, 4)
    assert count_macs(learner, torch.zeros(9, 3, 16, 16)) == count_macs(learner, (3, 16, 16))


def test_what_the_adapter_cuts_costs_what_the_whole_costs():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 8, 3, stride=2), nn.Flatten(), nn.Linear(8 * 9, 5)
    )
    x = torch.zeros(2, 3, 8, 8)
    learner = attach_exits(model, ["0", "1"], classes=5, sample=x)
    (whole,) = count_macs(cascade([model]), (3, 8, 8))
    heads = 4 * 5 + 8 * 5
    assert sum(count_macs(learner, x)) == whole + heads


def test_a_committee_is_aligned_at_the_last_exit():
    long, short = DartsLearner(DARTS_V2, 4, 8, 10), cascade([DartsLearner(DARTS_V1, 4, 4, 10, exits="end")])
    table = macs_table([long, short], (3, 16, 16))
    assert table.shape == (3, 2)
    assert table[:, 0].tolist() == list(count_macs(long, (3, 16, 16)))
    assert table[:2, 1].tolist() == [0, 0]
    assert table[2, 1] == count_macs(short, (3, 16, 16))[0]


def test_what_can_be_counted():
    with pytest.raises(TypeError, match="must be a Learner, got Linear; cascade"):
        count_macs(nn.Linear(3, 4), (3,))
    for sample in (32, "cifar"):
        with pytest.raises(TypeError, match="must be a shape such as"):
            count_macs(DartsLearner(DARTS_V2, 4, 4), sample)


def test_recurrent_layers_count_their_products():
    lstm = nn.LSTM(3, 4, batch_first=True)
    model = attach_exits([lstm_first := First(lstm), nn.Sequential(nn.Flatten(), nn.Linear(24, 5))], classes=5,
                         sample=torch.zeros(2, 6, 3))  # fmt: skip
    assert lstm_first.layer is lstm
    assert count_macs(model, (6, 3))[0] == 6 * (3 * 16 + 4 * 16) + 4 * 5


class First(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


@pytest.mark.parametrize(
    ("sample", "message"),
    [((3, 0, 32), "positive integers"), ((3, 31, 32), "cannot be halved"), (("a",), "positive integers")],
)
def test_inputs_that_cannot_be(sample, message):
    with pytest.raises(ValueError, match=message):
        count_macs(DartsLearner(DARTS_V2, 4, 4), sample)
