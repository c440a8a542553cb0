"""The seam: any source gives the same answers, unasked votes count in their turn, and nobody loops for ever."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Agreement, Cascade, Confidence, Recorded, Rule, Soft, Static, drive, replay
from quorate.squad.path import depth_first
from quorate.squad.replaying import prepare
from tests.squad.cases import arrivals, committees
from tests.squad.test_pool import random_pool
from tests.squad.test_rule import by_loop


class Eager:
    """Tells a whole exit at once, in voting order, as an engine that advances every learner does."""

    def __init__(self, probs, lattice, present=None):
        self.probs, self.order, self.present, self.ran = probs, lattice.order[:, :, 0], present, None

    def votes(self, wanted):
        num_learners = self.probs.shape[1]
        for e in np.unique(wanted[wanted >= 0] // num_learners):
            rows = np.flatnonzero(wanted // num_learners == e)
            for k in self.order[e]:
                probs = self.probs[e, k, rows]
                if self.present is not None:
                    probs = np.where(self.present[e, k, rows][:, None], probs, np.nan)
                yield rows, int(e * num_learners + k), probs


@settings(max_examples=60, deadline=None)
@given(committees(orders=False), st.sampled_from([Rule("mean", 0.6), Rule("mean", 0.6, panel="all"), Static()]))
def test_an_eager_source_gives_the_answers_of_a_lazy_one(case, policy):
    lattice = prepare(case.probs, case.macs, None, None, case.present, True).lattice
    n = case.probs.shape[2]
    lazy, _ = drive(policy, Recorded(case.probs, case.present), n, lattice)
    eager, _ = drive(policy, Eager(case.probs, lattice, case.present), n, lattice)
    for name, a, b in zip(lazy._fields, lazy, eager, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.parametrize("policy", [Rule("mean", 0.2), Confidence(1, 0.2), Static()])
def test_a_vote_told_twice_or_after_the_decision_changes_nothing(policy):
    probs = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3, 5))
    lattice = prepare(probs, np.ones((2, 3)), None, None, None, True).lattice
    state = policy.start(5, lattice)
    rows = np.arange(5)
    for branch in [0, 0, 1, 1, 2, 0, 3, 4, 5]:
        policy.tell(state, rows, branch, probs[divmod(branch, 3)])
    before = policy.verdict(state)
    assert (policy.wanted(state) == -1).all()
    for branch in range(6):
        policy.tell(state, rows, branch, probs[0, 0][::-1])
    for a, b in zip(before, policy.verdict(state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_policy_that_never_decides_is_stopped():
    class Greedy(Static):
        def wanted(self, state):
            return state.at * 0

    with pytest.raises(RuntimeError, match="Greedy still wants votes after every branch was told"):
        replay(np.full((1, 2, 1, 2), 0.5), [[1, 1]], Greedy())


@settings(max_examples=150, deadline=None)
@given(
    committees(max_learners=4, max_exits=3, orders=False), st.integers(0, 9), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_a_sample_alone_is_decided_as_in_a_batch(case, which, told, seed):
    """A batch of one takes another way through every policy, in plain numbers."""
    pool = random_pool(case, np.random.default_rng(seed), 0.8)
    if not len(pool.depths):
        return
    path = [divmod(b, case.macs.shape[1]) for b in depth_first(case.macs)]
    policy = [
        Rule("mean", 0.51), Rule("mean", 0.51, panel="all"), Rule("t-test" if case.macs.shape[1] > 1 else "mean", 0.3),
        Static(), Confidence(0, 0.51), Cascade(0.51), Soft("arrival", 0.51), Agreement(0.6), pool.with_(threshold=0.3),
        pool.with_(stop="confidence", threshold=0.4, path=path),
    ][which]  # fmt: skip
    arrival = arrivals(case, seed) if told else None
    together, _, _ = by_loop(case.probs, case.macs, policy, present=case.present, arrival=arrival)
    for i in range(case.probs.shape[2]):
        one = slice(i, i + 1)
        alone, _, _ = by_loop(
            case.probs[:, :, one], case.macs, policy,
            present=None if case.present is None else case.present[:, :, one],
            arrival=None if arrival is None else arrival[:, one],
        )  # fmt: skip
        for name, x, y in zip(alone._fields, alone, together, strict=True):
            expected = y[:, one] if name in ("pivot", "reached") else y[one]
            if name in ("confidence", "probs"):
                np.testing.assert_allclose(x, expected, atol=1e-12, err_msg=name)
            else:
                np.testing.assert_array_equal(x, expected, err_msg=name)
