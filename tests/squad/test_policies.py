import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Confidence, Static, replay
from tests.by_definition import squad_costs, squad_paths
from tests.squad.cases import arrivals, committees, sample


def agrees(case, policy, branches, mix, stops, arrival=None, exact=True):
    """The loop's outcome of every sample is the slow reading's."""
    outcome = replay(case.probs, case.macs, policy, arrival=arrival, present=case.present)
    num_learners = case.macs.shape[1]
    for i in range(case.probs.shape[2]):
        probs, macs, _, present = sample(case, i)
        told = None if arrival is None else arrival[:, i].tolist()
        slow = squad_paths.walk(probs, branches(told), mix, stops, present, told)
        assert (outcome.exit[i], outcome.passed[i]) == (slow.exit, slow.passed)
        np.testing.assert_allclose(outcome.probs[i], slow.probs, atol=1e-9)
        assert outcome.confidence[i] == pytest.approx(slow.confidence, abs=1e-9)
        if slow.label < 0 or exact or np.sort(slow.probs)[-1] - np.sort(slow.probs)[-2] > 1e-9:
            assert outcome.label[i] == slow.label
        asks = sorted({b % num_learners for b in branches(told)})
        latency, energy = squad_costs.simulate(macs, slow.waited, asks)
        assert outcome.lazy_macs[i] == pytest.approx(squad_costs.lazy(macs, slow.cast))
        assert outcome.eager_macs[i] == pytest.approx(squad_costs.eager(macs, max(e for e, _ in slow.waited)))
        assert outcome.free_running_macs[i] == pytest.approx(latency)
        assert outcome.free_running_energy[i] == pytest.approx(energy)
    assert np.isnan(outcome.parallel_macs).all()
    assert (outcome.pivot == -1).all()
    assert not outcome.reached.any()


@settings(max_examples=60, deadline=None)
@given(committees(orders=False), st.booleans(), st.integers(0, 2**31))
def test_static_is_the_soft_vote_of_the_last_exits(case, told, seed):
    num_exits, num_learners = case.macs.shape
    path = [(num_exits - 1) * num_learners + k for k in range(num_learners)]
    arrival = arrivals(case, seed) if told else None
    agrees(case, Static(), lambda _: path, squad_paths.soft, lambda *_: False, arrival, exact=False)


@settings(max_examples=60, deadline=None)
@given(committees(orders=False), st.integers(0, 8), st.sampled_from([0.0, 0.5, 0.8]), st.booleans(), st.integers(0, 99))
def test_confidence_is_one_early_exit_learner(case, learner, threshold, told, seed):
    num_exits, num_learners = case.macs.shape
    learner %= num_learners
    path = [e * num_learners + learner for e in range(num_exits)]
    arrival = arrivals(case, seed) if told else None
    agrees(
        case,
        Confidence(learner, threshold),
        lambda _: path,
        lambda deepest: deepest[learner][1],
        lambda _, deepest: max(deepest[learner][1]) > threshold,
        arrival,
    )


def test_thresholds_and_learners_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\), got 1.6"):
        Confidence(threshold=1.6)
    with pytest.raises(ValueError, match="learner must lie in 0 to 1, got 2"):
        replay(np.full((1, 2, 1, 2), 0.5), [[1, 1]], Confidence(learner=2))
