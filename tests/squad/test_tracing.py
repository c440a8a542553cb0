import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Confidence, Rule, Static, replay, trace
from tests.squad.cases import arrivals, committees


def check(case, policy, at, arrival):
    """Stopping a trace at a level is replaying the policy with it."""
    traced = trace(case.probs, case.macs, policy, order=case.order, arrival=arrival, present=case.present)
    stopped = traced.stop(at.level if hasattr(at, "level") else at.threshold)
    outcome = replay(case.probs, case.macs, at, order=case.order, arrival=arrival, present=case.present)
    for name in ("label", "exit", "confidence", "passed"):
        np.testing.assert_array_equal(getattr(stopped, name), getattr(outcome, name), err_msg=name)
    for name, cost in stopped.costs._asdict().items():
        np.testing.assert_array_equal(cost, getattr(outcome, name), err_msg=name)


@settings(max_examples=100, deadline=None)
@given(
    committees(), st.sampled_from([0.0, 0.5, 0.8]), st.sampled_from(["pivot", "all"]), st.booleans(), st.integers(0, 99)
)
def test_a_trace_of_the_rule(case, threshold, panel, told, seed):
    arrival = arrivals(case, seed) if told else None
    check(case, Rule("mean", 0.33, panel=panel), Rule("mean", threshold, panel=panel), arrival)


@settings(max_examples=100, deadline=None)
@given(committees(), st.sampled_from([0.0, 0.5, 0.8]), st.booleans(), st.integers(0, 99))
def test_a_trace_of_a_path(case, threshold, told, seed):
    arrival = arrivals(case, seed) if told else None
    check(case, Confidence(0), Confidence(0, threshold), arrival)
    check(case, Static(), Static(), arrival)


def test_a_policy_that_cannot_be_traced_is_refused():
    with pytest.raises(TypeError, match="trace needs a Rule or a PathPolicy, got object"):
        trace(np.full((1, 1, 1, 2), 0.5), [[1]], object())


def test_chunks_change_nothing(monkeypatch):
    probs = np.random.default_rng(0).dirichlet(np.ones(4) * 0.3, size=(3, 3, 50))
    whole = trace(probs, np.ones((3, 3)), Rule())
    monkeypatch.setattr("quorate.squad.replaying.CHUNK", 7)
    parts = trace(probs, np.ones((3, 3)), Rule())
    for a, b in zip([*whole[:4], *whole.costs], [*parts[:4], *parts.costs], strict=True):
        np.testing.assert_array_equal(a, b)
