import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import COSTS, Costs, Rule, Static, costs, replay
from tests.by_definition import squad_costs
from tests.squad.cases import committees


def test_paper_formula_where_the_order_is_that_of_costs():
    """Eqs. 12 and 13 as printed, with a rank per exit, on a hand-worked sample."""
    from types import SimpleNamespace

    macs = [[2.0, 1.0, 4.0], [3.0, 5.0, 4.0]]
    sample = SimpleNamespace(exit=1, order=[[1, 0, 2], [0, 2, 1]], cost_ranks=[1, 2])
    # exit 0 waits for 1 and 2: 2; (1 + 2) + 1 * 2 = 5.   exit 1 waits for everyone: 5; 3 + 4 + 5 = 12.
    assert squad_costs.paper(macs, sample) == (7.0, 17.0)
    waited = np.array([[[1], [0], [-1]], [[0], [2], [1]]])
    cost = costs(waited, waited >= 0, np.ones(3, bool), np.array(macs), stages=True)
    assert (cost.parallel_macs[0], cost.parallel_energy[0]) == (7.0, 17.0)
    # lazily learner 2 runs both its branches for its vote at exit 1
    assert cost.lazy_macs[0] == 2 + 3 + 1 + 5 + 4 + 4
    assert cost.free_running_macs[0] == max(2 + 3, 1 + 5, 4 + 4)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**31))
def test_free_running_is_the_simulation(num_exits, num_learners, seed):
    rng = np.random.default_rng(seed)
    macs = rng.integers(0, 9, (num_exits, num_learners)).astype(float)
    needed = rng.random((num_exits, num_learners)) < 0.5
    asks = needed.any(0) | (rng.random(num_learners) < 0.5)
    cost = costs(np.where(needed, 0, -1)[:, :, None], needed[:, :, None], asks, macs, stages=False)
    expected = squad_costs.simulate(macs.tolist(), map(tuple, np.argwhere(needed)), np.flatnonzero(asks).tolist())
    assert (cost.free_running_macs[0], cost.free_running_energy[0]) == pytest.approx(expected)
    assert np.isnan(cost.parallel_macs[0])
    assert np.isnan(cost.parallel_energy[0])


def test_whole_models_cost_their_own_branch():
    waited = np.array([[[0], [0]], [[1], [-1]]])
    macs = np.array([[1.0, 2.0], [10.0, 20.0]])
    chained = costs(waited, waited >= 0, np.ones(2, bool), macs, stages=False)
    apart = costs(waited, waited >= 0, np.ones(2, bool), macs, stages=False, chained=False)
    assert chained.lazy_macs[0] == apart.lazy_macs[0] == 13
    only_last = np.array([[[-1], [-1]], [[0], [1]]])
    assert costs(only_last, only_last >= 0, np.ones(2, bool), macs, False).lazy_macs[0] == 33
    assert costs(only_last, only_last >= 0, np.ones(2, bool), macs, False, chained=False).lazy_macs[0] == 30
    assert costs(only_last, only_last >= 0, np.ones(2, bool), macs, False, chained=False).free_running_macs[0] == 20


def test_the_static_ensemble_costs_what_it_must():
    probs = np.full((2, 3, 1, 2), 0.5)
    macs = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    outcome = replay(probs, macs, Static())
    assert outcome.lazy_macs[0] == outcome.eager_macs[0] == outcome.free_running_energy[0] == 21
    assert outcome.free_running_macs[0] == 9


def test_an_absent_branch_costs_its_wait_and_no_work():
    probs = np.array([[[[0.9, 0.1]], [[0.9, 0.1]], [[0.9, 0.1]]]])
    present = np.array([[[False], [True], [True]]])
    outcome = replay(probs, [[5, 6, 7]], Rule("mean", 0.5), present=present)
    assert outcome.lazy_macs[0] == 13
    assert (outcome.free_running_macs[0], outcome.parallel_macs[0]) == (7, 7)


def test_every_cost_has_one_name():
    assert set(COSTS.values()) == set(Costs._fields)


@settings(max_examples=30, deadline=None)
@given(committees(orders=False, absences=False))
def test_lazy_macs_are_what_a_lazy_source_ran(case):
    from tests.squad.test_rule import by_loop

    for policy in (Rule("mean", 0.6), Static()):
        outcome, ran, _ = by_loop(case.probs, case.macs, policy)
        assert outcome.lazy_macs.sum() == pytest.approx((ran * case.macs).sum())
