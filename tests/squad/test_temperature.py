import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Confidence, Rule, Scaled, Soft, fit_temperatures, replay, trace
from quorate.squad.temperature import cooled
from tests.squad.cases import committees
from tests.squad.test_pool import calibration
from tests.squad.test_rule import by_loop, same


@settings(max_examples=60, deadline=None)
@given(committees(), st.sampled_from([Rule("mean", 0.6), Soft("arrival", 0.7), Confidence(0, 0.6)]), st.integers(0, 99))
def test_scaled_is_the_policy_on_scaled_votes(case, policy, seed):
    temperatures = np.random.default_rng(seed).uniform(0.5, 3, case.macs.shape)
    by_hand = (case.probs / case.probs.max(-1, keepdims=True)) ** (1 / temperatures)[:, :, None, None]
    by_hand /= by_hand.sum(-1, keepdims=True)
    scaled = Scaled(policy, temperatures)
    kept = {"order": case.order, "present": case.present}
    outcome = replay(case.probs, case.macs, scaled, **kept)
    same(outcome, replay(by_hand, case.macs, policy, **kept))
    looped, _, _ = by_loop(case.probs, case.macs, scaled, **kept)
    np.testing.assert_array_equal(looped.label, outcome.label)
    np.testing.assert_allclose(looped.confidence, outcome.confidence)
    stopped = trace(case.probs, case.macs, scaled, **kept).stop(policy.threshold)
    np.testing.assert_array_equal(stopped.label, outcome.label)


def test_a_temperature_undoes_itself_and_is_one_where_it_does_not_help():
    probs, labels = calibration(4000, noise=1.0)
    fitted = fit_temperatures(probs, labels)
    hot = probs**0.5 / (probs**0.5).sum(-1, keepdims=True)
    np.testing.assert_allclose(fit_temperatures(hot, labels), fitted / 2, rtol=0.05)
    calm = Scaled(Confidence(), fitted).apply(probs)
    again = fit_temperatures(calm, labels)
    np.testing.assert_allclose(again, 1, atol=0.05)
    assert (fit_temperatures(probs[:, :, :8], labels[:8]) == 1).all()


def test_temperatures_of_another_committee_are_refused():
    probs, _ = calibration(10)
    with pytest.raises(
        ValueError, match=r"temperatures are for \[1, 1\] \[exits, learners\], the committee has \[2, 3\]"
    ):
        replay(probs, np.ones((2, 3)), Scaled(Confidence(), [[2.0]]))
    with pytest.raises(ValueError, match="temperatures must be positive"):
        Scaled(Confidence(), [[0.0]])


@pytest.mark.parametrize("temperature", [0.04, 0.05, 20.0])
def test_no_row_vanishes_however_many_classes(temperature):
    probs = np.random.default_rng(0).dirichlet(np.full(1000, 200.0), size=5).astype(np.float32)
    scaled = cooled(probs, temperature)
    np.testing.assert_allclose(scaled.sum(-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(scaled.argmax(-1), probs.argmax(-1))
