"""A training in a process of its own, to be killed."""

import torch
from tests.train.cases import darts, toy

from quorate.train import Training, fit

TRAINING = Training(epochs=3, batch=20, accumulate=2, drop_path=0.4, average=0.9, checkpoint_seconds=0)


def train(folder, begun=None):
    torch.set_num_threads(1)
    learner = darts()
    if begun is not None:
        begun.set()
    return fit(learner, toy(120), TRAINING, folder=folder)
