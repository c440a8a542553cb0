import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.by_definition import measures_plain as plain

from quorate.measures import exit_ratios, pivot_ratios


@st.composite
def journeys(draw):
    """Pivots, exits and outcomes of a few samples; forced answers at the last exit alone, as in SQUAD."""
    num_exits, num_learners, n = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 12))
    exit = [draw(st.integers(0, num_exits - 1)) for _ in range(n)]
    passed = [e < num_exits - 1 or draw(st.booleans()) for e in exit]
    pivot = [
        [draw(st.integers(0, num_learners - 1)) if e <= exit[i] else -1 for i in range(n)] for e in range(num_exits)
    ]
    return pivot, exit, passed, num_learners


@given(journeys())
def test_stages_by_rank_equal_the_count(journey):
    pivot, exit, passed, num_learners = journey
    ratios = pivot_ratios(pivot, exit, passed, num_learners)
    counts = np.array(plain.stages_by_rank(pivot, exit, passed, num_learners))
    for e, row in enumerate(counts):
        if row.sum():
            np.testing.assert_allclose([*ratios.by_rank[e], ratios.forced[e]], row / row.sum(), atol=1e-12)
        else:
            assert np.isnan([*ratios.by_rank[e], ratios.forced[e]]).all()
    whole = counts.sum(axis=0) / counts.sum()
    np.testing.assert_allclose([*ratios.overall, ratios.overall_forced], whole, atol=1e-12)


@given(journeys())
def test_exits_equal_the_count_and_sum_to_one(journey):
    _, exit, passed, _ = journey
    ratios = exit_ratios(exit, passed, num_exits=4)
    for e in range(4):
        assert ratios.passed[e] == sum(x == e and p for x, p in zip(exit, passed, strict=True)) / len(exit)
        assert ratios.forced[e] == sum(x == e and not p for x, p in zip(exit, passed, strict=True)) / len(exit)
    assert ratios.passed.sum() + ratios.forced.sum() == pytest.approx(1)


def test_torch_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    pivot, exit, passed = torch.tensor([[1, 2], [-1, 1]]), torch.tensor([0, 1]), torch.tensor([True, False])
    np.testing.assert_equal(
        pivot_ratios(pivot, exit, passed, 3), pivot_ratios(pivot.numpy(), exit.numpy(), passed.numpy(), 3)
    )
    np.testing.assert_equal(exit_ratios(exit, passed, 2), exit_ratios(exit.numpy(), passed.numpy(), 2))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least one sample"):
        exit_ratios([], [], num_exits=2)
    with pytest.raises(ValueError, match=r"exit must lie in 0\.\.1, got -1"):
        exit_ratios([-1], [True], num_exits=2)
    with pytest.raises(TypeError, match="exit must hold integers, got float64"):
        exit_ratios([0.5], [True], num_exits=2)
    with pytest.raises(ValueError, match=r"each of 2 samples, got shape \(1,\)"):
        exit_ratios([0, 1], [True], num_exits=2)
    with pytest.raises(TypeError, match="passed must hold booleans"):
        exit_ratios([0], [1], num_exits=2)
    with pytest.raises(ValueError, match=r"pivot must lie in -1\.\.2, got 3"):
        pivot_ratios([[3]], [0], [True], num_learners=3)
    with pytest.raises(ValueError, match=r"pivot must have two dimensions"):
        pivot_ratios([3], [0], [True], num_learners=3)
    with pytest.raises(ValueError, match="agree on the samples, got 1 and 2"):
        pivot_ratios([[1, 1]], [0], [True], num_learners=3)
