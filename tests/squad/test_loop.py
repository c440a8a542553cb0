"""The seam: any source gives the same answers, unasked votes count in their turn, and nobody loops for ever."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Confidence, Recorded, Rule, Static, drive, replay
from quorate.squad.replaying import prepare
from tests.squad.cases import committees


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
