"""Strategies and small helpers that the tests of nets share."""

import numpy as np
import torch
from hypothesis import strategies as st

from quorate.nets import PRIMITIVES, Genotype

torch.set_num_threads(1)


@st.composite
def cells(draw):
    edges = []
    for node in range(2, 6):
        edge = st.tuples(st.sampled_from(PRIMITIVES[1:]), st.integers(0, node - 1))
        edges += [draw(edge), draw(edge)]
    return tuple(edges)


genotypes = st.builds(Genotype, cells(), cells())


def random_weights(shapes, seed=0):
    """Weights for every name, of a size that keeps activations near one."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes.items():
        if name.endswith("running_var"):
            value = rng.uniform(0.5, 2, shape)
        elif len(shape) == 4:
            value = rng.normal(0, (2 / np.prod(shape[1:])) ** 0.5, shape)
        elif len(shape) == 1 and name.endswith(".weight"):
            value = rng.uniform(0.5, 1.5, shape)
        else:
            value = rng.normal(0, 0.3, shape)
        weights[name] = torch.tensor(value, dtype=torch.float32)
    return weights
