import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Recorded, Rule, confidence, costs, critical_values, drive, quorum, replay, stages
from quorate.squad.fused import conclude, examine, first_passing
from quorate.squad.replaying import outcome_of, prepare
from tests.by_definition import squad_costs, squad_rule
from tests.squad.cases import arrivals, committees, sample

GOLDEN = json.loads((Path(__file__).parent / "squad_rule.json").read_text())


def by_loop(probs, macs, policy, order=None, present=None, arrival=None, chained=True):
    """What :func:`replay` does, but always vote by vote; returns what a lazy source ran as well."""
    votes = prepare(probs, macs, order, arrival, present, chained)
    source = Recorded(probs, present, votes.arrival, chained)
    verdict, ran = drive(policy, source, probs.shape[2], votes.lattice)
    cost = costs(verdict.waited, verdict.cast, verdict.asks, votes.lattice.macs, verdict.pivot is not None, chained)
    return outcome_of(verdict, cost), ran, verdict


def same(a, b):
    for name, x, y in zip(a._fields, a, b, strict=True):
        np.testing.assert_array_equal(x, y, err_msg=name)


rules = st.builds(
    Rule,
    criterion=st.just("mean"),
    threshold=st.sampled_from([0.0, 0.3, 0.5, 0.75, 0.9]),
    panel=st.sampled_from(["pivot", "all"]),
) | st.builds(
    Rule,
    criterion=st.just("t-test"),
    threshold=st.sampled_from([0.0, 0.3, 0.6]),
    significance=st.sampled_from([0.05, 0.2, 0.4]),
    panel=st.sampled_from(["pivot", "all"]),
)


def fits(rule, case):
    return rule.criterion == "mean" or case.probs.shape[1] > 1


@pytest.mark.parametrize("way", ["fused", "loop"])
@pytest.mark.parametrize("number", range(len(GOLDEN)))
def test_worked_cases(number, way):
    """151 cases worked out beforehand, independently of this code."""
    case = GOLDEN[number]
    probs = np.array(case["probs"], float)[:, :, None]
    rule = Rule(case["criterion"], case["threshold"], case["significance"], case["panel"])
    order = np.array(case["order"]) if "order" in case else None
    present = np.array(case["present"])[:, :, None] if "present" in case else None
    if way == "fused":
        outcome = replay(probs, case["macs"], rule, order=order, present=present)
    else:
        outcome, _, _ = by_loop(probs, case["macs"], rule, order, present)
    expected = case["expected"]
    got = {
        "exit": outcome.exit[0],
        "label": outcome.label[0],
        "passed": outcome.passed[0],
        "ranks": [r for r in outcome.pivot[:, 0] if r >= 0],
        "f_m": outcome.parallel_macs[0],
        "f_mt": outcome.parallel_energy[0],
        "lazy": outcome.lazy_macs[0],
        "eager": outcome.eager_macs[0],
        "free_running": outcome.free_running_macs[0],
        "free_running_energy": outcome.free_running_energy[0],
    }
    assert got == {name: expected[name] for name in got}
    assert outcome.confidence[0] == pytest.approx(expected["confidence"], abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(committees(), rules, st.data())
def test_loop_and_sweep_are_the_slow_reading(case, rule, data):
    if not fits(rule, case):
        return
    outcome = replay(case.probs, case.macs, rule, order=case.order, present=case.present)
    looped, ran, verdict = by_loop(case.probs, case.macs, rule, case.order, case.present)
    same(outcome, looped)
    i = data.draw(st.integers(0, case.probs.shape[2] - 1))
    probs, macs, order, present = sample(case, i)
    slow = squad_rule.decide(probs, macs, rule.criterion, rule.threshold, rule.significance, rule.panel, order, present)
    assert (outcome.exit[i], outcome.label[i], outcome.passed[i]) == (slow.exit, slow.label, slow.passed)
    assert outcome.confidence[i] == pytest.approx(slow.confidence, abs=1e-12)
    np.testing.assert_allclose(outcome.probs[i], slow.probs, atol=1e-12)
    assert outcome.pivot[: slow.exit + 1, i].tolist() == slow.pivots
    assert outcome.reached[: slow.exit + 1, i].tolist() == slow.reached
    assert (outcome.pivot[slow.exit + 1 :, i] == -1).all()
    check_costs(outcome, i, macs, slow)
    assert {(e, k) for e, k in np.argwhere(verdict.cast[:, :, i])} == slow.cast
    assert (np.array([squad_costs.lazy(macs, slow.cast)]) <= (ran * case.macs).sum()).all()


def check_costs(outcome, i, macs, slow):
    f_m, f_mt = squad_costs.stages_in_any_order(macs, slow)
    waited = [(e, k) for e in range(slow.exit + 1) for k in slow.order[e][: slow.cost_ranks[e] + 1]]
    latency, energy = squad_costs.simulate(macs, waited, range(len(macs[0])))
    got = (
        outcome.parallel_macs[i],
        outcome.parallel_energy[i],
        outcome.lazy_macs[i],
        outcome.eager_macs[i],
        outcome.free_running_macs[i],
        outcome.free_running_energy[i],
    )
    expected = (f_m, f_mt, squad_costs.lazy(macs, slow.cast), squad_costs.eager(macs, slow.exit), latency, energy)
    assert got == pytest.approx(expected, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(committees(orders=False), rules, st.integers(0, 2**31))
def test_any_order_of_arrival_is_the_slow_reading_with_that_order(case, rule, seed):
    if not fits(rule, case):
        return
    arrival = arrivals(case, seed)
    outcome = replay(case.probs, case.macs, rule, arrival=arrival, present=case.present)
    num_exits, num_learners, n, _ = case.probs.shape
    by_cost = np.argsort(case.macs, axis=1, kind="stable").tolist()
    for i in range(n):
        order, never = squad_rule.order_of_arrival(arrival[:, i].tolist(), by_cost, num_exits, num_learners)
        present = np.ones((num_exits, num_learners), bool) if case.present is None else case.present[:, :, i].copy()
        for branch in never:
            present[branch] = False
        slow = squad_rule.decide(
            case.probs[:, :, i].tolist(), case.macs.tolist(), rule.criterion, rule.threshold, rule.significance,
            rule.panel, order, present.tolist(),
        )  # fmt: skip
        assert (outcome.exit[i], outcome.label[i], outcome.passed[i]) == (slow.exit, slow.label, slow.passed)
        assert outcome.pivot[: slow.exit + 1, i].tolist() == slow.pivots
        check_costs(outcome, i, case.macs.tolist(), slow)


@settings(max_examples=60, deadline=None)
@given(committees(), rules)
def test_replay_is_the_first_passing_stage(case, rule):
    if not fits(rule, case):
        return
    table = stages(case.probs, case.macs, rule, order=case.order, present=case.present)
    outcome = replay(case.probs, case.macs, rule, order=case.order, present=case.present)
    samples = np.arange(case.probs.shape[2])
    np.testing.assert_array_equal(first_passing(table.bound, rule.threshold)[0], outcome.exit)
    np.testing.assert_array_equal(table.label[outcome.exit, samples], outcome.label)
    np.testing.assert_array_equal(table.confidence[outcome.exit, samples], outcome.confidence)
    np.testing.assert_array_equal(table.pivot[outcome.exit, samples], outcome.pivot[outcome.exit, samples])
    assert (np.isneginf(table.bound) == ~table.reached).all()


@settings(max_examples=60, deadline=None)
@given(committees(), rules, st.sampled_from([0.1, 0.4, 0.8]))
def test_order_of_the_costs_and_of_the_thresholds(case, rule, higher):
    if not fits(rule, case):
        return
    outcome = replay(case.probs, case.macs, rule, order=case.order, present=case.present)
    slack = 1e-9
    assert (outcome.parallel_macs <= outcome.parallel_energy + slack).all()
    assert (outcome.parallel_energy <= outcome.eager_macs + slack).all()
    assert (outcome.lazy_macs <= outcome.eager_macs + slack).all()
    assert (outcome.free_running_macs <= outcome.free_running_energy + slack).all()
    stricter = Rule(rule.criterion, max(rule.threshold, higher), rule.significance, rule.panel)
    assert (replay(case.probs, case.macs, stricter, order=case.order, present=case.present).exit >= outcome.exit).all()


@settings(max_examples=60, deadline=None)
@given(committees(), st.sampled_from(["pivot", "all"]))
def test_threshold_zero_stops_at_the_first_quorum(case, panel):
    rule = Rule("mean", 0.0, panel=panel)
    outcome = replay(case.probs, case.macs, rule, order=case.order, present=case.present)
    table = stages(case.probs, case.macs, rule, order=case.order, present=case.present)
    first = np.where(table.reached.any(0), table.reached.argmax(0), len(table.reached) - 1)
    np.testing.assert_array_equal(outcome.exit, first)


@settings(max_examples=60, deadline=None)
@given(committees(orders=False), rules, st.randoms(use_true_random=False))
def test_names_of_learners_do_not_matter(case, rule, random):
    if not fits(rule, case):
        return
    num_exits, num_learners = case.macs.shape
    macs = np.arange(num_learners)[None] + np.zeros((num_exits, 1)) + 1  # distinct
    names = random.sample(range(num_learners), num_learners)
    outcome = replay(case.probs, macs, rule, present=case.present)
    present = None if case.present is None else case.present[:, names]
    renamed = replay(case.probs[:, names], macs[:, names], rule, present=present)
    same(outcome, renamed)


@settings(max_examples=60, deadline=None)
@given(committees(max_learners=1, absences=False), st.sampled_from([0.0, 0.4, 0.7]))
def test_one_learner_with_the_mean_is_a_confidence_exit(case, threshold):
    outcome = replay(case.probs, case.macs, Rule("mean", threshold))
    confidence_ = case.probs[:, 0].max(-1)
    above = confidence_ > threshold
    exit_ = np.where(above.any(0), above.argmax(0), len(above) - 1)
    np.testing.assert_array_equal(outcome.exit, exit_)
    np.testing.assert_array_equal(outcome.confidence, confidence_[exit_, np.arange(len(exit_))])


def test_unfeasibility_is_known_when_the_documentation_says():
    """K = 3 and 4: at the third vote (so 4 is the first K that saves one); K = 5: at the fourth."""
    earliest = {}
    for num_learners in (3, 4, 5):
        votes = np.array(np.meshgrid(*[range(num_learners)] * num_learners)).reshape(num_learners, -1)
        settled = quorum(votes)
        earliest[num_learners] = int(settled.pivot[~settled.reached].min())
    assert earliest == {3: 2, 4: 2, 5: 3}


def test_pivot_panel_has_the_size_of_the_quorum_and_two_confidences_make_a_simple_bound():
    c = np.array([[0.9], [0.6]])
    _, bound = confidence(c, np.array([[True], [True]]), critical_values(0.05, 1))
    assert bound[0] == pytest.approx(0.75 - 3.156876 * 0.3, abs=1e-6)


def test_critical_values_are_those_of_scipy():
    from scipy.stats import t

    np.testing.assert_allclose(critical_values(0.05, 30), [t.ppf(0.95, n) for n in range(1, 31)], rtol=1e-9)
    np.testing.assert_allclose(critical_values(0.2, 40), [t.ppf(0.8, n) for n in range(1, 41)], rtol=1e-9)


def test_a_table_of_its_own_serves_where_scipy_does_not():
    probs = np.array([[[[0.97, 0.03]], [[0.95, 0.05]]]])
    given_, known = Rule(significance=0.1, critical=[3.0776835]), Rule(significance=0.1)
    assert replay(probs, [[1, 2]], given_).passed == replay(probs, [[1, 2]], known).passed
    with pytest.raises(ValueError, match="critical must hold t values for 1 to 2 degrees of freedom with 4 learners"):
        replay(np.full((1, 4, 1, 2), 0.5), [[1, 1, 1, 1]], Rule(critical=[6.3]))


def test_an_absent_last_stage_is_a_fault_and_an_absent_early_one_is_not():
    probs = np.full((2, 3, 2, 2), [0.9, 0.1])
    present = np.ones((2, 3, 2), bool)
    present[1, :, 0] = False
    present[0, :, 1] = False
    probs[~present] = np.nan
    outcome = replay(probs, np.ones((2, 3)), Rule(threshold=0.95), present=present)
    assert outcome.label.tolist() == [-1, 0]
    assert outcome.exit.tolist() == [1, 1]
    assert outcome.confidence.tolist() == [0, pytest.approx(0.9)]
    assert outcome.probs[0].tolist() == [0, 0]
    assert outcome.lazy_macs.tolist() == [2, 4]  # the first sample's dead second stage costs nothing, only time
    assert outcome.free_running_macs.tolist() == [2, 2]


def test_the_last_stage_asks_on_until_somebody_has_voted():
    probs = np.array([[[[0.1, 0.9]], [[0.1, 0.9]], [[0.1, 0.9]], [[0.6, 0.4]]]])
    present = np.array([[[False], [False], [False], [True]]])
    outcome = replay(probs, [[1, 2, 3, 4]], Rule(), present=present)
    assert (outcome.label[0], outcome.pivot[0, 0], outcome.passed[0]) == (0, 1, False)
    assert outcome.parallel_macs[0] == 4


@settings(max_examples=80, deadline=None)
@given(committees(orders=False), rules, st.integers(0, 2**31), st.integers(0, 12))
def test_a_deadline_forces_the_deepest_stage_with_a_vote(case, rule, seed, told):
    """Asked early, the rule answers as if that stage were the last and nobody else came."""
    if not fits(rule, case):
        return
    arrival = arrivals(case, seed, lost=0.0)
    num_exits, num_learners, n, _ = case.probs.shape
    lattice = prepare(case.probs, case.macs, None, None, None, True).lattice
    state = rule.start(n, lattice)
    for event in arrival[:told]:
        for i, branch in enumerate(event.tolist()):
            e, k = divmod(branch, num_learners)
            rule.tell(state, np.array([i]), branch, case.probs[e, k, [i]])
    verdict = rule.verdict(state)
    by_cost = np.argsort(case.macs, axis=1, kind="stable").tolist()
    for i in range(n):
        so_far = arrival[:told, i].tolist()
        order, never = squad_rule.order_of_arrival(so_far, by_cost, num_exits, num_learners)
        heard = np.ones((num_exits, num_learners), bool)
        for branch in never:
            heard[branch] = False
        answers = []
        for last in range(num_exits):  # the stages that opened are those whose earlier ones were all settled
            slow = squad_rule.decide(
                case.probs[: last + 1, :, i].tolist(), case.macs[: last + 1].tolist(), rule.criterion, rule.threshold,
                rule.significance, rule.panel, order[: last + 1], heard[: last + 1].tolist(),
            )  # fmt: skip
            if slow.exit < last:
                break
            if slow.label >= 0:
                answers.append(slow)
            if not settled(heard[last], order[last], case.probs[last, :, i], rule):
                break
        if not answers:
            assert verdict.label[i] == -1
        else:
            assert (verdict.label[i], verdict.exit[i]) == (answers[-1].label, answers[-1].exit)
            assert verdict.confidence[i] == pytest.approx(answers[-1].confidence, abs=1e-12)


def settled(heard, order, probs, rule):
    """Whether the stage had all it waits for from the votes that came."""
    come = [k for k in order if heard[k]]
    votes = [int(probs[k].argmax()) for k in come]
    num_learners = len(order)
    lead = max((votes.count(v) for v in votes), default=0)
    if lead >= num_learners // 2 + 1:
        return rule.panel == "pivot" or len(come) == num_learners
    return lead + num_learners - len(come) < num_learners // 2 + 1


@pytest.mark.parametrize("num_learners", [1, 2, 13, 31])
def test_any_number_of_learners(num_learners):
    rng = np.random.default_rng(num_learners)
    logits = rng.normal(size=(2, num_learners, 50, 4)) + 3 * rng.normal(size=(50, 4))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    macs = rng.random((2, num_learners))
    for panel in ("pivot", "all"):
        rule = Rule("mean" if num_learners == 1 else "t-test", 0.5, panel=panel)
        same(replay(probs, macs, rule), by_loop(probs, macs, rule)[0])


def test_chunks_change_nothing(monkeypatch):
    from quorate.squad import replaying

    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(4) * 0.3, size=(3, 3, 101))
    order = rng.permuted(np.broadcast_to(np.arange(3)[None, :, None], (3, 3, 101)), axis=1)
    present = rng.random((3, 3, 101)) < 0.9
    whole = replay(probs, np.ones((3, 3)), Rule(threshold=0.4), order=order, present=present)
    monkeypatch.setattr(replaying, "CHUNK", 7)
    same(whole, replay(probs, np.ones((3, 3)), Rule(threshold=0.4), order=order, present=present))


def test_no_samples_is_an_empty_outcome():
    outcome = replay(np.empty((2, 3, 0, 4)), np.ones((2, 3)), Rule())
    assert outcome.label.shape == (0,)
    assert outcome.pivot.shape == (2, 0)
    assert outcome.probs.shape == (0, 4)


def test_the_sweep_decides_as_the_comparison_of_bounds():
    probs = np.random.default_rng(1).dirichlet(np.ones(3) * 0.2, size=(3, 5, 400))
    rule = Rule(threshold=0.7)
    lattice = prepare(probs, np.ones((3, 5)), None, None, None, True).lattice
    examined = examine(probs, None, rule, lattice.order)
    verdict = conclude(examined, *first_passing(examined.bound, 0.7))
    np.testing.assert_array_equal(verdict.label, replay(probs, np.ones((3, 5)), rule).label)
