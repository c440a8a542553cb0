import json

import numpy as np
import pytest

from quorate.squad import Static, Votes, Wish, replay, trace, tune
from quorate.squad.candidates import FAMILIES, Curve, candidates, crossfit, fit, folds_of, level_of
from quorate.squad.tuning import choose
from tests.squad.test_pool import calibration

MACS = np.array([[2.0, 3.0, 4.0], [2.0, 3.0, 4.0]])


def votes(n=1200, seed=0, **fields):
    probs, labels = calibration(n, 2, 3, 4, seed=seed, noise=1.1)
    return Votes(probs, labels, MACS, **fields)


@pytest.fixture(scope="module")
def tuned():
    return tune(votes(), Wish(max_drop=1.0))


def test_the_choice_is_the_cheapest_that_keeps_the_wish(tuned):
    assert tuned.kept
    assert tuned.chosen.drop <= 1.0 + 1e-9
    assert tuned.chosen.cost == min(point.cost for point in tuned.best.values() if point)
    assert set(tuned.best) == set(FAMILIES)
    assert tuned.cost < tuned.static_cost == 18


def test_the_promise_holds_on_other_samples(tuned):
    """Judged on 20,000 samples of the same kind, with room for what 1,200 samples leave open."""
    other = votes(20_000, seed=9)
    outcome, static = replay(other.probs, MACS, tuned.policy), replay(other.probs, MACS, Static())
    drop = 100 * float((static.label == other.labels).mean() - (outcome.label == other.labels).mean())
    low, high = tuned.drop_interval
    assert low < tuned.drop < high
    assert low - 1 < drop < high + 1
    assert outcome.lazy_macs.mean() == pytest.approx(tuned.cost, rel=0.1)


def test_the_frontier_rises(tuned):
    costs, accuracies = [p.cost for p in tuned.frontier], [p.accuracy for p in tuned.frontier]
    assert costs == sorted(costs)
    assert accuracies == sorted(accuracies)
    assert len(set(accuracies)) == len(accuracies) > 3


def test_json_can_say_it(tuned):
    document = json.loads(json.dumps(tuned.as_json(), allow_nan=False))
    assert document["chosen"]["family"] == tuned.chosen.family
    assert document["wish"] == {"max_drop": 1.0, "budget": None, "cost": "lazy", "batch": 1}


def test_a_budget_buys_the_most_accurate():
    tuned = tune(votes(), Wish(budget=9), policies=["squad", "cascade", "confidence"])
    assert tuned.kept
    assert tuned.chosen.cost <= 9
    assert tuned.chosen.accuracy == max(point.accuracy for point in tuned.best.values() if point)


def test_a_wish_that_cannot_be_kept_is_said_and_the_nearest_given():
    tuned = tune(votes(), Wish(max_drop=0.0, budget=0.1), policies=["squad", "confidence"])
    assert not tuned.kept
    assert tuned.best == {"squad": None, "confidence": None}
    assert tuned.chosen.cost == pytest.approx(2, abs=0.5)  # the first exit of the cheapest learner


@pytest.mark.parametrize("cost", ["free-running", "free-running-energy", "f-m", "f-mt", "eager"])
def test_every_cost_can_be_wished_in(cost):
    tuned = tune(votes(600), Wish(max_drop=2, cost=cost), policies=["squad", "cascade"])
    assert np.isfinite(tuned.cost)
    assert tuned.cost <= tuned.static_cost
    if cost in ("f-m", "f-mt"):
        assert set(tuned.best) == {"squad"}  # a cascade has no stages


def test_milliseconds_are_costs():
    timed = votes(600, milliseconds={1: MACS[:, ::-1] / 10, 32: MACS / 20})
    tuned = tune(timed, Wish(max_drop=2, cost="milliseconds"), policies=["confidence"])
    assert tuned.static_cost == pytest.approx(1.8)
    assert tune(
        timed, Wish(max_drop=2, cost="milliseconds", batch=32), policies=["squad"]
    ).static_cost == pytest.approx(0.9)
    with pytest.raises(ValueError, match="milliseconds were measured at batch sizes 1, 32, not at 8"):
        tune(timed, Wish(cost="milliseconds", batch=8))
    with pytest.raises(ValueError, match="hold no milliseconds"):
        tune(votes(600), Wish(cost="milliseconds"))


def test_cross_fitting_judges_nobody_by_what_he_was_fitted_on():
    """Shuffled labels cannot be learned: out of fold no candidate beats chance, whatever the pool fits."""
    shuffled = votes(1000)
    shuffled = shuffled._replace(labels=np.random.default_rng(5).permutation(shuffled.labels))
    for curve in crossfit(shuffled, candidates(MACS, ["pool", "static"]), ["lazy"]):
        assert abs(curve.right.mean(1) - 0.25).max() < 0.06


def test_a_curve_is_a_row_of_replays():
    given = votes(400)
    fold = folds_of(400)
    chosen = candidates(MACS, ["squad", "soft", "pool", "agreement"])
    curves = crossfit(given, chosen, ["lazy", "free-running"])
    held = np.flatnonzero(fold == 2)
    fitted, part = fit(given.rows(np.flatnonzero(fold != 2))), given.rows(held)
    for curve in curves:
        g = len(curve.candidate.grid) // 3
        outcome = replay(part.probs, MACS, curve.candidate.make(fitted, curve.candidate.grid[g]))
        np.testing.assert_array_equal(curve.right[g, held], outcome.label == part.labels)
        np.testing.assert_allclose(curve.costs["lazy"][g, held], outcome.lazy_macs)
        np.testing.assert_allclose(curve.costs["free-running"][g, held], outcome.free_running_macs)


def test_levels_are_those_policies_compare_with():
    given = votes(300)
    fitted = fit(given)
    for candidate in candidates(MACS):
        policy = candidate.make(fitted, candidate.grid[-1])
        stopped = trace(given.probs, MACS, policy).stop(level_of(policy, candidate.grid[-1]))
        np.testing.assert_array_equal(stopped.label, replay(given.probs, MACS, policy).label)


def test_choice_is_by_cost_then_by_drop():
    right = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]], bool)
    spent = {"lazy": np.repeat([[1.0], [2.0], [3.0]], 4, axis=1)}
    curve = Curve(candidates(MACS, ["squad"])[0], right, spent)
    static = Curve(candidates(MACS, ["static"])[0], np.ones((1, 4), bool), {"lazy": np.full((1, 4), 9.0)})
    rows = np.ones(4, bool)
    assert choose([curve], static, Wish(max_drop=30), "lazy") == (0, 1)
    assert choose([curve], static, Wish(max_drop=0), "lazy", rows) == (0, 2)
    assert choose([curve], static, Wish(budget=2.5), "lazy", rows) == (0, 1)
    assert choose([curve, static], static, Wish(max_drop=60), "lazy", rows) == (0, 0)
    assert choose([curve], static, Wish(max_drop=0, budget=1), "lazy", rows) == (0, 0)


def test_five_learners_are_ordered_greedily():
    probs, labels = calibration(300, 1, 5, 3, noise=1.0)
    macs = np.array([[5.0, 1.0, 1.0, 5.0, 1.0]])
    tuned = tune(Votes(probs, labels, macs), Wish(max_drop=3), policies=["pool"])
    assert tuned.kept
    assert tuned.cost < 13


def test_absent_branches_and_few_samples():
    given = votes(300)
    present = np.random.default_rng(0).random((2, 3, 300)) < 0.9
    tuned = tune(given._replace(present=present), Wish(max_drop=3))
    assert np.isfinite(tuned.cost)
    with pytest.raises(ValueError, match="cross-fitting needs at least 10 samples, got 9"):
        tune(given.rows(np.arange(9)))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_drop": -1}, "max_drop must lie in 0 to 100 points, got -1"),
        ({"budget": 0}, "budget must be positive and finite, got 0"),
        ({"cost": "dollars"}, "cost must be one of f-m, f-mt, .* got 'dollars'"),
    ],
)
def test_wishes_that_cannot_be_meant_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Wish(**fields)


def test_unknown_policies_and_costless_ones_are_refused():
    with pytest.raises(ValueError, match="policies must be among static, .* got 'magic'"):
        tune(votes(300), policies=["magic"])
    with pytest.raises(ValueError, match="no policy but squad and static has a cost 'f-m'"):
        tune(votes(300), Wish(cost="f-m"), policies=["cascade"])


def test_a_policy_tuned_in_milliseconds_is_replayed_in_their_order(tmp_path):
    from quorate.store import read_policy, write_policy

    slow_where_cheap = votes(600, milliseconds={1: MACS[:, ::-1]})
    for family in ("soft", "cascade", "squad", "pool"):
        tuned = tune(slow_where_cheap, Wish(max_drop=3, cost="milliseconds"), policies=[family])
        write_policy(tuned.policy, tmp_path / "p.json")
        again, _ = read_policy(tmp_path / "p.json")
        timed = slow_where_cheap._replace(macs=MACS[:, ::-1])
        a, b = replay(timed.probs, timed.macs, tuned.policy.policy), replay(timed.probs, MACS, again)
        np.testing.assert_array_equal(a.label, b.label)
        np.testing.assert_array_equal(a.exit, b.exit)


def test_an_arrival_does_not_change_the_static_ensemble():
    given = votes(300)
    arrival = np.full((6, 300), -1)
    arrival[0], arrival[1] = 0, 1
    cut = tune(given._replace(arrival=arrival), Wish(max_drop=5), policies=["soft"])
    assert cut.static_accuracy == tune(given, Wish(max_drop=5), policies=["soft"]).static_accuracy
    assert cut.static_cost == 18


def test_more_states_than_can_all_be_fitted():
    probs, labels = calibration(120, 4, 5, 3, noise=1.0)
    tuned = tune(Votes(probs, labels, np.ones((4, 5))), Wish(max_drop=5), policies=["pool"])
    assert np.isfinite(tuned.cost)


def test_promises_cover_what_they_promise():
    """The 95 % intervals of 12 calibration draws, judged on 20,000 other samples."""
    other = votes(20_000, seed=99)
    static = replay(other.probs, MACS, Static()).label == other.labels
    held = []
    for seed in range(12):
        tuned = tune(votes(400, seed=seed), Wish(max_drop=1), policies=["squad", "soft", "cascade"])
        outcome = replay(other.probs, MACS, tuned.policy)
        drop = 100 * float(static.mean() - (outcome.label == other.labels).mean())
        cheap, dear = tuned.cost_interval
        held += [tuned.drop_interval[0] <= drop <= tuned.drop_interval[1], cheap <= outcome.lazy_macs.mean() <= dear]
    assert sum(held) >= 21
