"""Random committees for hypothesis: small, with ties, scattered and unanimous votes, absent branches, odd orders."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st


class Case(NamedTuple):
    probs: np.ndarray  # [E, K, N, C]
    macs: np.ndarray  # [E, K]
    order: np.ndarray | None  # [E, K, N]
    present: np.ndarray | None  # [E, K, N]


@st.composite
def committees(draw, max_learners=9, max_exits=4, absences=True, orders=True):
    """A committee whose probabilities are multiples of 1/12 (many ties), or continuous."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    num_exits = draw(st.integers(1, max_exits))
    num_learners = draw(st.integers(1, max_learners))
    n, classes = draw(st.integers(1, 6)), draw(st.integers(2, 5))
    shape = (num_exits, num_learners, n, classes)
    if draw(st.booleans()):
        probs = rng.multinomial(12, [1 / classes] * classes, size=shape[:3]) / 12
    else:
        sharpness = draw(st.sampled_from([0.2, 1.0, 6.0]))
        shared = rng.normal(size=(1, 1, n, classes)) * draw(st.sampled_from([0.0, 5.0]))
        logits = rng.normal(size=shape) * sharpness + shared
        probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    macs = rng.integers(0, 6, size=shape[:2]).astype(float)
    order = present = None
    if orders and draw(st.booleans()):
        order = rng.permuted(np.broadcast_to(np.arange(num_learners)[None, :, None], shape[:3]), axis=1)
    if absences and draw(st.booleans()):
        present = rng.random(shape[:3]) < draw(st.sampled_from([0.2, 0.7, 0.95]))
    return Case(probs, macs, order, present)


def sample(case, i):
    """Sample ``i`` of a case as nested lists, for the slow readings."""
    order = None if case.order is None else case.order[:, :, i].tolist()
    present = None if case.present is None else case.present[:, :, i].tolist()
    return case.probs[:, :, i].tolist(), case.macs.tolist(), order, present


def arrivals(case, seed, lost=0.1):
    """``[E * K, N]``: a random order in which branches arrive, some of them never; a learner's own come in order."""
    rng = np.random.default_rng(seed)
    num_exits, num_learners, n, _ = case.probs.shape
    arrival = np.full((num_exits * num_learners, n), -1)
    for i in range(n):
        learners = rng.permutation(np.repeat(np.arange(num_learners), num_exits))
        reached = [0] * num_learners
        told = []
        for k in learners:
            told.append(reached[k] * num_learners + k)
            reached[k] += 1
        told = [b for b in told if rng.random() > lost]
        arrival[: len(told), i] = told
    return arrival
