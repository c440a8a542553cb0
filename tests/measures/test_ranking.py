import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from tests.by_definition import measures_plain as plain

from quorate.measures import aurc, auroc

# Few distinct values, so that ties are common.
ties = st.integers(0, 4).map(lambda i: i / 4)


@given(st.lists(st.tuples(ties, st.booleans()), min_size=1, max_size=6))
def test_aurc_is_the_mean_over_all_orders_of_tied_samples(pairs):
    confidence, correct = zip(*pairs, strict=True)
    assert aurc(confidence, correct) == pytest.approx(plain.aurc(confidence, correct), abs=1e-12)


@given(st.lists(st.tuples(ties, st.booleans()), min_size=1, max_size=30))
def test_auroc_counts_pairs(pairs):
    confidence, correct = zip(*pairs, strict=True)
    assert auroc(confidence, correct) == pytest.approx(plain.auroc(confidence, correct), abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("digits", [1, 2, 12])
def test_auroc_is_that_of_scikit_learn(digits):
    rng = np.random.default_rng(digits)
    confidence = rng.uniform(size=5_000).round(digits)
    correct = rng.uniform(size=5_000) < confidence
    assert auroc(confidence, correct) == pytest.approx(roc_auc_score(correct, confidence), abs=1e-12)


def test_known_answers():
    assert aurc([0.9, 0.1], [True, True]) == 0
    assert aurc([0.9, 0.1], [False, False]) == 1
    assert aurc([0.3] * 10, [True] * 7 + [False] * 3) == pytest.approx(0.3)  # no order: the error rate
    assert auroc([0.3] * 10, [True] * 7 + [False] * 3) == 0.5
    assert auroc([0.9, 0.1], [True, False]) == 1
    assert np.isnan(auroc([0.9, 0.1], [False, False]))


@given(st.lists(st.tuples(ties, st.booleans()), min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_samples_and_the_scale_of_confidence_do_not_matter(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    for measure in (aurc, auroc):
        expected = measure(*zip(*pairs, strict=True))
        assert measure(*zip(*[(c**3, r) for c, r in shuffled], strict=True)) == pytest.approx(expected, nan_ok=True)


def test_bounds_may_rank_too():
    assert auroc([-np.inf, -3.0, 2.0], [False, True, True]) == 1  # a lower bound is -inf where unfeasible
    assert aurc([-np.inf, -3.0, 2.0], [False, True, True]) == pytest.approx(1 / 9)


def test_torch_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    confidence, correct = torch.tensor([0.5, 0.25, 0.75]), torch.tensor([True, False, False])
    for measure in (aurc, auroc):
        assert measure(confidence, correct) == measure(confidence.numpy(), correct.numpy())


@pytest.mark.parametrize("measure", [aurc, auroc])
def test_bad_input_is_named(measure):
    with pytest.raises(ValueError, match="at least one sample"):
        measure([], [])
    with pytest.raises(ValueError, match="same shape"):
        measure([0.5], [True, False])
    with pytest.raises(ValueError, match="NaN at sample 0"):
        measure([np.nan], [True])
    with pytest.raises(TypeError, match="booleans"):
        measure([0.5], [1])
