import numpy as np
import pytest
import torch

from quorate.engine import Committee
from quorate.squad import Rule
from tests.engine.learners import tiny_committee


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler itself
def test_compiled_branches_say_the_same_for_any_batch_size():
    learners, macs = tiny_committee(0, [2, 2])
    plain, compiled = (Committee(learners, Rule("mean", 0.6), macs, compiled=wanted) for wanted in (False, True))
    for n in (5, 1, 17):
        images = torch.randn(n, 5)
        np.testing.assert_allclose(compiled(images).probs, plain(images).probs, atol=1e-5)
