import json

import numpy as np
import pytest

from quorate.squad import Votes, compare, replay
from quorate.squad.candidates import candidates, fit
from tests.squad.test_pool import calibration

MACS = np.array([[2.0, 3.0, 4.0], [2.0, 3.0, 4.0]])


def votes(n, seed, **fields):
    probs, labels = calibration(n, 2, 3, 4, seed=seed, noise=1.1)
    return Votes(probs, labels, MACS, **fields)


@pytest.fixture(scope="module")
def compared():
    return compare(votes(1500, 1), votes(1000, 2))


def test_every_policy_has_every_reading(compared):
    groups = {r.group for r in compared.readings}
    assert len(groups) == 15
    assert len(compared.readings) == len(groups) * 2 * 2 * 4
    assert {(r.device, r.how) for r in compared.readings} == {
        (device, how) for device in ("lazy", "free-running") for how in ("calibration", "curve")
    }


def test_on_the_curve_nobody_loses_more_than_allowed(compared):
    for r in compared.readings:
        if r.how == "curve" and r.cost is not None:
            assert r.drop <= r.allowed + 1e-9
    for device in ("lazy", "free-running"):  # more may be lost, less is needed
        for group in {r.group for r in compared.readings}:
            costs = [
                r.cost if r.cost is not None else np.inf
                for r in sorted(compared.readings, key=lambda r: -r.allowed)
                if (r.group, r.device, r.how) == (group, device, "curve")
            ]
            assert costs == sorted(costs)


def test_a_reading_is_a_replay(compared):
    judge, choosing = votes(1500, 1), votes(1000, 2)
    fitted = fit(choosing)
    reading = next(r for r in compared.readings if r.group == "SQUAD, mean" and r.how == "curve" and r.allowed == 1)
    candidate = candidates(MACS, ["squad"])[0]
    costs = [replay(judge.probs, MACS, candidate.make(fitted, t)).lazy_macs.mean() for t in candidate.grid]
    assert min(abs(cost - reading.cost) for cost in costs) < 1e-5


def test_the_oracle_is_a_bound(compared):
    for device, bounds in compared.oracle.items():
        for path, (cost, accuracy) in bounds.items():
            full = [r for r in compared.readings if r.variant == path and r.device == device and r.how == "curve"]
            assert all(r.cost is None or cost <= r.cost for r in full if r.allowed == 0)
            assert accuracy >= compared.static_accuracy - 0.02


def test_duels_pair_the_samples(compared):
    assert {d.allowed for d in compared.duels} == {2.0, 1.0, 0.5, 0.0}
    for duel in compared.duels:
        assert duel.saved_interval[0] <= duel.saved <= duel.saved_interval[1]
        assert duel.gained_interval[0] <= duel.gained <= duel.gained_interval[1]
        assert duel.told_apart == (not duel.gained_interval[0] <= 0 <= duel.gained_interval[1])


def test_one_split_is_cross_fitted_and_milliseconds_are_a_device():
    timed = votes(500, 3, milliseconds={1: MACS / 10})
    found = compare(timed, policies=["squad", "confidence"], drops=[1.0])
    assert found.calibration is None
    assert found.static_costs == pytest.approx({"lazy": 18, "free-running": 8, "milliseconds": 1.8})
    assert {duel.champion.partition(",")[0] for duel in found.duels} == {"SQUAD"}
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert document["readings"][0]["device"] == "lazy"
    lazy, measured = (
        next(
            r.cost for r in found.readings if r.group == "SQUAD, mean" and (r.device, r.how) == (device, "calibration")
        )
        for device in ("lazy", "milliseconds")
    )
    assert measured == pytest.approx(lazy / 10)
