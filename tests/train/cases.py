"""Small data and small learners that train in a moment."""

import numpy as np
import torch
from torch import nn

from quorate.data import from_arrays
from quorate.nets import DARTS_V2, DartsLearner, cascade
from quorate.train import Training


def toy(count=80, side=8, channels=1, classes=2, seed=0):
    """Images whose brighter side tells the class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    images = rng.integers(0, 100, (count, side, side, channels))
    for label in range(classes):
        images[labels == label, :, label * side // classes : (label + 1) * side // classes] += 100
    return from_arrays("toy", images.astype(np.uint8), labels)


def linear(features=64, classes=2, seed=0):
    torch.manual_seed(seed)
    return cascade([nn.Sequential(nn.Flatten(), nn.Linear(features, classes))])


def darts(seed=0, classes=2, **keywords):
    torch.manual_seed(seed)
    return DartsLearner(DARTS_V2, channels=2, cells=3, classes=classes, **keywords)


QUICK = Training(epochs=2, batch=16, checkpoint_seconds=0)


def state_of(learner):
    return {name: tensor.clone() for name, tensor in learner.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)
