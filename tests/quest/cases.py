"""Small searches and small networks that answer in a moment."""

import torch
from tests.train.cases import toy

from quorate.quest import SearchConfig

TINY = SearchConfig(
    channels=2,
    cells=2,
    epochs=2,
    batch=16,
    posterior_epochs=2,
    logit_rate=0.1,
    rounds=2,
    pool=4,
    svgd_steps=20,
    scoring_images=16,
    estimation_images=16,
    checkpoint_seconds=0,
)


def images(count=110):
    return toy(count)


class Recalled:
    """A supernet that answers from memory: what a real one said of each architecture once."""

    def __init__(self, net, x):
        self.net, self.x, self.said = net, x, {}
        self.num_exits, self.classes = net.num_exits, net.classes

    def parameters(self):
        return self.net.parameters()

    @torch.no_grad()
    def chosen(self, x, choice, gates=None):
        key = str(choice)
        if key not in self.said:
            self.said[key] = self.net.chosen(self.x, choice)
        return self.said[key]
