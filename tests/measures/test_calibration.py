import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.by_definition import measures_plain as plain

from quorate.measures import CalibrationMeter, ece, exit_ece, stage_ece

BINS = 15
# Edges of the bins on purpose: they are where implementations differ.
confidences = st.one_of(st.floats(0, 1), st.integers(0, BINS).map(lambda i: i / BINS))
samples = st.lists(st.tuples(confidences, st.booleans()), min_size=1, max_size=40)


@given(samples, st.integers(1, 20))
def test_equals_the_definition(pairs, bins):
    confidence, correct = (list(column) for column in zip(*pairs, strict=True))
    assert ece(confidence, correct, bins) == pytest.approx(plain.ece(confidence, correct, bins), abs=1e-12)


@pytest.mark.parametrize(
    ("confidence", "correct", "expected"),
    [
        ([0.95, 1.0], [False, True], 0.475),  # one bin: |0.5 - 0.975|
        ([0.95, 1.0], [True, False], 0.475),  # the same bin; an extra one for 1.0 would give (0.05 + 1) / 2
        ([0.0], [True], 1.0),  # confidence 0 is in the first bin, not lost
        ([1.0, 1.0], [True, True], 0.0),
        ([0.5, 0.5], [True, False], 0.0),
        ([0.0, 0.0], [False, False], 0.0),  # nobody could answer: wrong, and said so
    ],
)
def test_worked_cases(confidence, correct, expected):
    assert ece(confidence, correct) == pytest.approx(expected, abs=1e-15)


def test_an_edge_belongs_to_the_bin_below_it():
    # Two bins: 0.5 shares the first with 0.25; |0.5 - 0.375| where apart it would be (0.75 + 0.5) / 2.
    assert ece([0.25, 0.5], [True, False], bins=2) == pytest.approx(0.125)


def test_a_perfect_predictor_is_calibrated():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(size=400_000)
    assert ece(confidence, rng.uniform(size=400_000) < confidence) < 0.005


@given(samples, st.data())
def test_any_split_into_batches_gives_the_same_bits(pairs, data):
    confidence, correct = (np.array(column) for column in zip(*pairs, strict=True))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(pairs)), max_size=6)))
    meter = CalibrationMeter(BINS)
    for c, r in zip(np.split(confidence, cuts), np.split(correct, cuts), strict=True):
        meter.update(c, r)
    assert meter.ece() == ece(confidence, correct, BINS)
    assert meter.count.sum() == len(pairs)
    assert meter.right.sum() == correct.sum()


def test_a_million_samples_in_batches_give_the_same_bits():
    rng = np.random.default_rng(1)
    confidence, correct = rng.uniform(size=1_000_003), rng.uniform(size=1_000_003) < 0.7
    meter = CalibrationMeter()
    for start in range(0, len(confidence), 4_097):
        meter.update(confidence[start : start + 4_097], correct[start : start + 4_097])
    assert meter.ece() == ece(confidence, correct)


def test_by_exit_over_leavers_and_over_all():
    rng = np.random.default_rng(2)
    confidence_EN, correct_EN = rng.uniform(size=(4, 300)), rng.uniform(size=(4, 300)) < 0.6
    exit_N = rng.integers(0, 3, size=300)  # nobody leaves at the last one
    taken = np.take_along_axis(confidence_EN, exit_N[None], 0)[0], np.take_along_axis(correct_EN, exit_N[None], 0)[0]
    left = exit_ece(*taken, exit_N, num_exits=4)
    for e in range(3):
        assert left[e] == ece(confidence_EN[e][exit_N == e], correct_EN[e][exit_N == e])
        assert stage_ece(confidence_EN, correct_EN)[e] == ece(confidence_EN[e], correct_EN[e])
    assert np.isnan(left[3])


def test_torch_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    confidence = torch.tensor([0.3, 0.75, 1.0], requires_grad=True)
    correct = torch.tensor([False, True, True])
    assert ece(confidence, correct) == ece(confidence.detach().numpy(), correct.numpy())
    assert ece(confidence.bfloat16(), correct) == pytest.approx(ece(confidence, correct), abs=2e-3)
    exits = exit_ece(confidence, correct, torch.tensor([0, 1, 1]), num_exits=2)
    assert isinstance(exits, np.ndarray)


def test_a_confidence_a_rounding_above_one_is_one():
    assert ece(np.float32([1.0 + 1e-6]), [True]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "at least one sample, got none"),
        (([0.5], [True, False]), r"same shape, got \(1,\) and \(2,\)"),
        (([0.5], [True], 0), "bins must be at least 1, got 0"),
        (([1.2], [True]), r"confidence must lie in \[0, 1\], got 1.2 at sample 0"),
        (([0.5, -0.1], [True, True]), "got -0.1 at sample 1"),
        (([0.5, np.nan], [True, True]), "NaN at sample 1"),
        (([[0.5]], [[True]]), r"one dimension \(samples\), got shape \(1, 1\)"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ece(*arguments)


def test_labels_in_place_of_correct_are_refused():
    with pytest.raises(TypeError, match=r"booleans \(label == truth\), got int64"):
        ece([0.5, 0.6], np.array([3, 1]))


def test_bad_exits_are_named():
    with pytest.raises(ValueError, match=r"exit must lie in 0\.\.1, got 2"):
        exit_ece([0.5], [True], [2], num_exits=2)
    with pytest.raises(ValueError, match="same length"):
        exit_ece([0.5], [True], [0, 1], num_exits=2)
    with pytest.raises(ValueError, match="two dimensions"):
        stage_ece([0.5], [True])
