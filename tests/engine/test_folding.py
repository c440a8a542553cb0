import pytest
import torch
from torch import nn

from quorate.engine.folding import fold
from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner, attach_exits
from tests.engine import learners as _  # noqa: F401 - one thread


def worn(network):
    """The network after it has seen something, so that its norms are not trivial."""
    torch.manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -1, 1)
            nn.init.uniform_(module.running_var, 0.5, 2)
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 2)
                nn.init.uniform_(module.bias, -1, 1)
    return network.eval()


def norms(network):
    return sum(isinstance(module, nn.BatchNorm2d) for module in network.modules())


@pytest.mark.parametrize(("genotype", "stem"), [(DARTS_V2, "cifar"), (DARTS_V1, "cifar"), (DARTS_V2, "imagenet")])
def test_networks_of_the_darts_space_lose_every_norm_and_say_the_same(genotype, stem):
    learner = worn(DartsLearner(genotype, channels=4, cells=3, classes=3, stem=stem))
    x = torch.randn(2, 3, 64, 64)
    wanted = learner(x)
    assert norms(fold(learner)) == 0
    for ours, theirs in zip(learner(x), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


class Residual(nn.Module):
    """A norm that can be folded, one whose convolution is read twice, and one convolution for two norms."""

    def __init__(self):
        super().__init__()
        self.a, self.norm_a = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.b, self.norm_b = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.c, self.norm_c, self.norm_d = nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = torch.relu(self.norm_a(self.a(x)))
        y = self.b(x)
        x = torch.relu(self.norm_b(y) + y)
        x = self.norm_d(self.c(self.norm_c(self.c(x))))
        return self.head(x.mean((2, 3)))


@pytest.mark.parametrize("exits", [["norm_a"], ["a"], ["norm_b"]])
def test_a_cut_network_loses_the_norms_that_can_go(exits):
    model = worn(Residual())
    x = torch.randn(2, 3, 8, 8)
    learner = worn(attach_exits(model, exits=exits, classes=3, sample=x))
    wanted = learner(x)
    left = norms(fold(learner))
    assert left == (4 if exits == ["a"] else 3)
    for ours, theirs in zip(learner(x), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_norms_without_running_statistics_stay():
    """Such a norm mixes samples, so a network with one cannot be cut; as stages it can be used, but not folded."""
    first = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, track_running_stats=False))
    second = nn.Sequential(nn.Conv2d(4, 4, 3), nn.Flatten())
    learner = attach_exits([first, second], classes=3, sample=torch.randn(2, 3, 8, 8)).eval()
    assert norms(fold(learner)) == 1
