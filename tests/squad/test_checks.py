import numpy as np
import pytest
import torch

from quorate.squad import Rule, replay, stages


def fine():
    return np.full((2, 3, 4, 5), 0.2)


def spoiled(value):
    probs = fine()
    probs[1, 2, 3, 0] = value
    return probs


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probs": fine()[0]}, r"probs must have 4 dimensions \[exits, learners, samples, classes\], got 3"),
        ({"probs": fine()[:, :0]}, "at least one exit, learner and class"),
        ({"macs": np.ones((3, 2))}, r"macs must be \[exits, learners\] = \[2, 3\] as in probs, got shape \[3, 2\]"),
        ({"macs": -ONES}, "macs must be finite and not negative, got -1 at exit 0, learner 0"),
        ({"macs": ONES * np.nan}, "macs must be finite and not negative, got nan at exit 0, learner 0"),
        ({"probs": spoiled(np.nan)}, "probs hold NaN at exit 1, learner 2, sample 3: mark a branch"),
        ({"probs": spoiled(-0.2)}, "probs must not be negative, got -0.2 at exit 1, learner 2, sample 3"),
        ({"probs": spoiled(0.3)}, "probs must sum to 1 within 0.001, got 1.1 at exit 1, learner 2, sample 3"),
        ({"probs": spoiled(np.inf)}, "probs must sum to 1 within 0.001, got inf at exit 1, learner 2, sample 3"),
        ({"order": np.zeros((2, 3), int)}, r"order must name every learner once, got \[0, 0, 0\] at exit 0"),
        ({"order": np.zeros((3, 3), int)}, r"order must be \[2, 3\] or \[2, 3, 4\], got shape \[3, 3, 1\]"),
        ({"order": [0, 1, 2]}, r"order must be \[2, 3\]"),
        (
            {"present": np.ones((2, 3), bool)},
            r"present must be \[exits, learners, samples\] = \[2, 3, 4\], got \[2, 3\]",
        ),
        ({"arrival": np.zeros((6, 4), int)}, "arrival must name a branch at most once, got 0 twice for sample 0"),
        ({"arrival": np.full((6, 4), 6)}, "arrival must hold branches 0 to 5, or -1 for never"),
        (
            {"arrival": np.zeros((5, 4), int)},
            r"arrival must be \[exits \* learners, samples\] = \[6, 4\], got \[5, 4\]",
        ),
    ],
)
def test_bad_votes_are_refused_with_the_place(arguments, message):
    given = {"probs": fine(), "macs": ONES, **arguments}
    with pytest.raises(ValueError, match=message):
        replay(given.pop("probs"), given.pop("macs"), Rule(), **given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"probs": fine().astype(int)}, "probs must be floating point, got int64"),
        ({"order": np.ones((2, 3))}, "order must hold learner indices, got float64"),
        ({"present": np.ones((2, 3, 4))}, "present must be boolean, got float64"),
        ({"arrival": np.ones((6, 4))}, "arrival must hold branch indices, got float64"),
    ],
)
def test_wrong_types_are_refused(arguments, message):
    given = {"probs": fine(), "macs": ONES, **arguments}
    with pytest.raises(TypeError, match=message):
        replay(given.pop("probs"), given.pop("macs"), Rule(), **given)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"threshold": 1.6}, r"threshold must lie in \[0, 1\), got 1.6"),
        ({"threshold": 1.0}, r"threshold must lie in \[0, 1\), got 1.0"),
        ({"threshold": float("nan")}, r"threshold must lie in \[0, 1\), got nan"),
        ({"significance": 0.5}, r"significance must lie in \(0, 0.5\), got 0.5"),
        ({"criterion": "vibes"}, "criterion must be 't-test' or 'mean', got 'vibes'"),
        ({"panel": "some"}, "panel must be 'pivot' or 'all', got 'some'"),
    ],
)
def test_rules_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Rule(**fields)


def test_one_learner_has_no_deviation():
    with pytest.raises(ValueError, match="criterion='t-test' needs at least 2 learners, got 1.*use criterion='mean'"):
        replay(np.full((1, 1, 1, 2), 0.5), [[1]], Rule())


def test_the_sample_is_named_across_chunks(monkeypatch):
    monkeypatch.setattr("quorate.squad.replaying.CHUNK", 2)
    with pytest.raises(ValueError, match="at exit 1, learner 2, sample 3"):
        replay(spoiled(0.9), ONES, Rule())


def test_absent_branches_may_hold_anything():
    probs, present = fine(), np.ones((2, 3, 4), bool)
    present[1, 2, 3] = present[0, 0, 1] = present[0, 1, 2] = False
    probs[1, 2, 3], probs[0, 0, 1], probs[0, 1, 2] = np.nan, np.inf, -7
    for panel in ("pivot", "all"):
        outcome = replay(probs, ONES, Rule(panel=panel), present=present)
        assert np.isfinite(outcome.confidence).all()
        np.testing.assert_allclose(outcome.probs.sum(-1), 1)


def test_bfloat16_rows_may_miss_one_by_its_rounding():
    probs = torch.softmax(torch.randn(2, 3, 500, 10, generator=torch.Generator().manual_seed(0)), -1).bfloat16()
    assert (probs.float().sum(-1) - 1).abs().max() > 1e-3
    assert replay(probs, ONES, Rule()).label.shape == (500,)
    with pytest.raises(ValueError, match="sum to 1 within 0.004"):
        replay(probs * 1.05, ONES, Rule())


def test_stages_are_those_of_a_rule():
    from quorate.squad import Static

    with pytest.raises(TypeError, match="stages needs a Rule, got Static"):
        stages(fine(), ONES, Static())
