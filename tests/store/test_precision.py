"""What float16 log-probabilities do to decisions: nothing, but for samples at the threshold."""

import numpy as np
import pytest

from quorate.squad import Rule, Static, Votes, replay, stages
from quorate.store import read_votes, write_votes


@pytest.mark.parametrize("classes", [10, 1000])
def test_decisions_of_a_half_precision_file(tmp_path, classes):
    rng = np.random.default_rng(classes)
    n = 2000 if classes == 10 else 100
    truth = 4 * rng.normal(size=(n, classes)) + 3
    logits = truth + 2 * rng.normal(size=(3, 3, n, classes))
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    votes = Votes(probs, rng.integers(classes, size=n), np.arange(9.0).reshape(3, 3) + 1)
    for dtype in ("float16", "float32"):
        write_votes(votes, tmp_path / dtype, dtype)
    half, single = (read_votes(tmp_path / dtype).probs for dtype in ("float16", "float32"))
    for threshold in (0.5, 0.9, 0.99):
        rule = Rule("mean", threshold)
        bounds = stages(single, votes.macs, rule).bound
        clear = (np.abs(bounds - threshold) > 1e-3).all(0)
        assert clear.mean() > 0.9
        a, b = replay(half, votes.macs, rule), replay(single, votes.macs, rule)
        np.testing.assert_array_equal(a.exit[clear], b.exit[clear])
        np.testing.assert_array_equal(a.pivot[:, clear], b.pivot[:, clear])
        forced_apart = clear & (a.label != b.label)  # a tie of votes broken by summed probabilities
        assert forced_apart.mean() < 0.01
    soft = replay(half, votes.macs, Static()).label == replay(single, votes.macs, Static()).label
    assert soft.mean() > 0.995
