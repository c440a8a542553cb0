"""Small learners of torch with random weights, and votes that are on the edge."""

import numpy as np
import torch
from torch import nn

from quorate.nets import cascade
from quorate.nets.learner import Learner
from quorate.squad import replay

torch.set_num_threads(1)


class TinyBranch(nn.Module):
    """Linear, tanh; a head beside it."""

    def __init__(self, before, width, classes, last):
        super().__init__()
        self.body, self.head, self.last = nn.Linear(before, width), nn.Linear(width, classes), last

    def forward(self, x):
        y = torch.tanh(self.body(x))
        logits = 3 * self.head(y)
        return (logits,) if self.last else (y, logits)


def tiny_learner(num_exits, classes, features=5, width=6):
    sizes = [features] + [width] * num_exits
    branches = [TinyBranch(sizes[e], width, classes, e == num_exits - 1) for e in range(num_exits)]
    return Learner(branches, classes)


def tiny_committee(seed, exits, classes=3, chained=True):
    """Learners with these numbers of exits, and a cost table."""
    torch.manual_seed(seed)
    if chained:
        learners = [tiny_learner(n, classes) for n in exits]
    else:
        learners = [cascade([nn.Linear(5, classes) for _ in range(n)]) for n in exits]
    rng = np.random.default_rng(seed)
    macs = rng.integers(1, 6, size=(max(exits), len(exits))).astype(float)
    macs[[[e < max(exits) - n for n in exits] for e in range(max(exits))]] = 0
    return learners, macs


def near(votes, policy, seed=0, draws=8, size=1e-5):
    """``[N]``: samples whose answer hangs on less than ``size``: votes moved by that much give another one."""
    rng = np.random.default_rng(seed)
    there = None if votes.present is None else votes.present
    fragile = np.zeros(len(votes.labels), bool)
    plain = replay(votes.probs, votes.macs, policy, present=there, chained=votes.chained)
    for _ in range(draws):
        moved = np.clip(votes.probs + rng.choice([-size, size], size=votes.probs.shape), 0, 1).astype(np.float32)
        moved /= moved.sum(-1, keepdims=True)
        other = replay(moved, votes.macs, policy, present=there, chained=votes.chained)
        fragile |= (other.label != plain.label) | (other.lazy_macs != plain.lazy_macs)
    return fragile
