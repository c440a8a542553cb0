"""A search in a process of its own, to be killed."""

import torch
from tests.quest.cases import TINY, images

from quorate.quest.search import search


def find(folder, begun=None, selectors=("svgd", "greedy")):
    torch.set_num_threads(1)
    data = images()
    if begun is not None:
        begun.set()
    return search(data, TINY, folder, learners=2, selectors=selectors)
