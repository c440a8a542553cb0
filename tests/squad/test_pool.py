import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from quorate.squad import Pool, Static, policy_from_document, policy_to_document, replay
from quorate.squad.path import by_cumulative_cost, depth_first
from quorate.squad.pool_fit import Fitter, states_near
from tests.by_definition import squad_paths, squad_pool
from tests.squad.cases import arrivals, committees
from tests.squad.test_policies import agrees


def calibration(n=400, num_exits=2, num_learners=3, classes=4, seed=0, noise=1.5):
    """Learners that are right more often the deeper they are."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    shared = rng.normal(size=(1, 1, n, classes))
    depth = np.linspace(1.5, 3, num_exits)[:, None, None, None]
    logits = depth * np.eye(classes)[labels] + noise * (shared + rng.normal(size=(num_exits, num_learners, n, classes)))
    probs = np.exp(logits - logits.max(-1, keepdims=True))
    return probs / probs.sum(-1, keepdims=True), labels


def random_pool(case, rng, share=1.0):
    """A pool with arbitrary numbers for a share of the states."""
    num_exits, num_learners = case.macs.shape
    depths = (
        np.array(np.meshgrid(*[np.arange(-1, num_exits)] * num_learners, indexing="ij")).reshape(num_learners, -1).T
    )
    depths = depths[(depths >= 0).any(1)]
    depths = depths[np.lexsort(depths.T)]
    depths = depths[rng.random(len(depths)) < share]
    weights = rng.normal(size=depths.shape) * (depths >= 0)
    gates = rng.normal(size=(len(depths), 16))
    gates[:, 5:10] = np.abs(gates[:, 5:10]) + 0.1
    return Pool(num_exits, depths, weights, gates)


@settings(max_examples=120, deadline=None)
@given(
    committees(max_learners=4, max_exits=3, orders=False), st.sampled_from(["gate", "confidence"]), st.booleans(),
    st.booleans(), st.sampled_from([1.0, 0.5]), st.integers(0, 999),
)  # fmt: skip
def test_the_pool_is_the_slow_reading(case, stop, along, told, share, seed):
    rng = np.random.default_rng(seed)
    pool = random_pool(case, rng, share)
    if not len(pool.depths):
        return
    num_learners, classes = case.macs.shape[1], case.probs.shape[3]
    path = depth_first(case.macs, rng.permutation(num_learners).tolist()) if along else None
    pool = pool.with_(stop=stop, threshold=0.4, path=path and [divmod(b, num_learners) for b in path])
    arrival = arrivals(case, seed) if told else None
    state_of = {tuple(d): i for i, d in enumerate(pool.depths.tolist())}

    def state(deepest):
        return state_of.get(tuple(deepest[k][0] if k in deepest else -1 for k in range(num_learners)))

    def mix(deepest):
        at = state(deepest)
        return squad_pool.mix(None if at is None else pool.weights[at], deepest, pool.floor, classes)

    def stops(_, deepest):
        at, p = state(deepest), mix(deepest)
        if at is None:
            return False
        return (
            max(p) > 0.4
            if stop == "confidence"
            else squad_pool.chance(pool.gates[at], squad_pool.features(p, deepest)) < 0.4
        )

    by_cost = by_cumulative_cost(case.macs)
    agrees(case, pool, lambda t: squad_paths.sequence(path, by_cost, t), mix, stops, arrival, exact=False)


def test_weights_minimise_the_cross_entropy():
    probs, labels = calibration(60, 2, 2, 3)
    fitter = Fitter(probs, labels)
    for depth in [(0, -1), (0, 0), (1, 0), (1, 1)]:
        voters = [k for k, e in enumerate(depth) if e >= 0]
        logs = [np.log(np.maximum(probs[depth[k], k], 1e-3)).tolist() for k in voters]
        found = minimize(squad_pool.cross_entropy, np.full(len(voters), 0.5), (logs, labels.tolist(), 1e-3), tol=1e-9)
        np.testing.assert_allclose(fitter.state(depth)[0][voters], found.x, atol=2e-3)
        mine = squad_pool.cross_entropy(fitter.state(depth)[0][voters], logs, labels.tolist(), 1e-3)
        assert mine == pytest.approx(found.fun, abs=1e-7)


def test_gate_is_scikit_learns_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    probs, labels = calibration(600, 2, 2, 4)
    fitter = Fitter(probs, labels)
    depth = (0, -1)
    weights, gate, note = fitter.state(depth)
    assert note is None
    answers, feature = fitter._answers(depth, weights, np.arange(600))
    full, _ = fitter._answers((1, 1), fitter.state((1, 1))[0], np.arange(600))
    repaired = (full.argmax(-1) == labels) & (answers.argmax(-1) != labels)
    scale = feature.std(1)
    flat = scale < 1e-12
    standard = ((feature - feature.mean(1)[:, None]) / np.where(flat, 1, scale)[:, None])[~flat]
    oracle = LogisticRegression(C=1 / (2 * 1e-3 * 600), tol=1e-10, max_iter=10_000).fit(standard.T, repaired)
    ours = 1 / (1 + np.exp(-(gate[10:15][~flat] @ standard + gate[15])))
    np.testing.assert_allclose(ours, oracle.predict_proba(standard.T)[:, 1], atol=2e-3)
    assert gate[14] == 0  # a learner alone always agrees with itself: a feature without spread is left at 0


def test_it_beats_the_soft_vote_at_less_cost_where_learners_differ():
    probs, labels = calibration(4000, 3, 3, 5, noise=1.0)
    fit, judge = slice(0, 2000), slice(2000, None)
    pool = Pool.fit(probs[:, :, fit], labels[fit])
    assert len(pool.weights) == 63
    macs = np.ones((3, 3))
    path = [(e, k) for k in range(3) for e in range(3)]
    outcome = replay(probs[:, :, judge], macs, pool.with_(path=path, threshold=0.02))
    static = replay(probs[:, :, judge], macs, Static())
    right, static_right = ((o.label == labels[judge]).mean() for o in (outcome, static))
    assert right > static_right - 0.01
    assert outcome.lazy_macs.mean() < 0.8 * static.lazy_macs.mean()


def test_json_and_back_loses_nothing():
    probs, labels = calibration()
    pool = Pool.fit(probs, labels).with_(stop="confidence", path=[(0, 2), (0, 0), (1, 0), (0, 1), (1, 2), (1, 1)])
    document = json.loads(json.dumps(policy_to_document(pool)))
    again = policy_from_document(document)
    assert (again.stop, again.threshold, again.path_, again.notes) == (pool.stop, 0.9, pool.path_, pool.notes)
    for name in ("depths", "weights", "gates"):
        np.testing.assert_array_equal(getattr(again, name), getattr(pool, name))
    for a, b in zip(replay(probs, np.ones((2, 3)), pool), replay(probs, np.ones((2, 3)), again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_learner_stuck_on_one_class_does_not_veto_the_rest():
    probs, labels = calibration(2000, noise=0.7)
    probs = probs**4 / (probs**4).sum(-1, keepdims=True)  # as sure of themselves as networks are
    pool = Pool.fit(probs[:, :, :1000], labels[:1000])
    broken = probs[:, :, 1000:].copy()
    broken[:, 1] = [1, 0, 0, 0]
    whole = replay(probs[:, :, 1000:], np.ones((2, 3)), pool.with_(threshold=0.0))
    stuck = replay(broken, np.ones((2, 3)), pool.with_(threshold=0.0))
    deaf = Pool.fit(probs[:, :, :1000], labels[:1000], floor=1e-9)
    vetoed = replay(broken, np.ones((2, 3)), deaf.with_(threshold=0.0))
    accuracy = [(o.label == labels[1000:]).mean() for o in (whole, stuck, vetoed)]
    assert accuracy[0] - accuracy[1] < 0.2 < accuracy[0] - accuracy[2]


def test_a_learner_stuck_already_at_calibration_is_given_no_say():
    probs, labels = calibration(2000)
    probs[:, 1] = [1, 0, 0, 0]
    pool = Pool.fit(probs[:, :, :1000], labels[:1000])
    alone = Pool.fit(probs[:, [0, 2], :1000], labels[:1000])
    with_it, without = (
        (
            replay(probs[:, learners, 1000:], np.ones((2, len(learners))), p.with_(threshold=0.0)).label
            == labels[1000:]
        ).mean()
        for p, learners in ((pool, [0, 1, 2]), (alone, [0, 2]))
    )
    assert with_it > without - 0.02


def test_a_learner_that_knows_nothing_weighs_little():
    rng = np.random.default_rng(1)
    probs, labels = calibration(2000)
    probs[:, 2] = rng.dirichlet(np.ones(4), size=(2, 2000))
    pool = Pool.fit(probs, labels)
    full = pool.weights[-1]
    assert abs(full[2]) < 0.1 < full[0]


def test_fifty_samples_are_enough_to_answer_and_it_says_what_was_missing():
    probs, labels = calibration(1050, 3, 3, 10, noise=1.0)
    pool = Pool.fit(probs[:, :, :50], labels[:50])
    assert any("fewer than 6 repairs: their gate is a constant rate" in note for note in pool.notes)
    outcome = replay(probs[:, :, 50:], np.ones((3, 3)), pool)
    static = replay(probs[:, :, 50:], np.ones((3, 3)), Static())
    assert (outcome.label == labels[50:]).mean() > (static.label == labels[50:]).mean() - 0.08


def test_a_class_that_never_occurs_is_said():
    probs, labels = calibration()
    keep = labels != 2
    pool = Pool.fit(probs[:, :, keep], labels[keep])
    assert pool.notes[0] == "1 classes have no calibration sample (2)"
    assert np.isfinite(pool.weights).all()


def test_states_nobody_was_seen_in_are_left_out_and_do_not_stop():
    probs, labels = calibration()
    present = np.ones((2, 3, 400), bool)
    present[1, 1] = False
    pool = Pool.fit(np.where(present[..., None], probs, np.nan), labels, present=present)
    assert not (pool.depths[:, 1] == 1).any()
    assert any("states have no sample" in note for note in pool.notes)
    later = replay(
        probs, np.ones((2, 3)), pool.with_(threshold=0.9, path=[(0, 1), (1, 1), (0, 0), (1, 0), (0, 2), (1, 2)])
    )
    assert (later.exit >= 0).all()


def test_one_learner_is_a_network_with_recalibrated_exits():
    probs, labels = calibration(num_exits=3, num_learners=1, noise=1.0)
    pool = Pool.fit(probs, labels)
    assert pool.depths.tolist() == [[0], [1], [2]]
    outcome = replay(probs, np.ones((3, 1)), pool.with_(stop="confidence", threshold=0.8))
    assert set(outcome.exit.tolist()) == {0, 1, 2}


def test_more_states_than_1024_need_paths():
    probs, labels = calibration(50, 3, 6, 3)
    with pytest.raises(
        ValueError, match="6 learners with 3 exits have 4,095 states, more than 1,024: give the `paths`"
    ):
        Pool.fit(probs, labels)
    path = [(e, k) for k in range(6) for e in range(3)]
    pool = Pool.fit(probs, labels, paths=[path])
    assert {tuple(d) for d in pool.depths.tolist()} == states_near([path], 3, 6)
    assert (replay(probs, np.ones((3, 6)), pool.with_(path=path)).label == labels).mean() > 0.6


def test_progress_is_told():
    probs, labels = calibration(50, 1, 2)
    seen = []
    Pool.fit(probs, labels, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_tensors_are_votes_too():
    import torch

    probs, labels = calibration(100)
    pool = Pool.fit(torch.from_numpy(probs), torch.from_numpy(labels))
    np.testing.assert_array_equal(pool.weights, Pool.fit(probs, labels).weights)
    outcome = replay(torch.from_numpy(probs), np.ones((2, 3)), pool)
    assert isinstance(outcome.probs, torch.Tensor)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": 1.0}, r"threshold must lie in \[0, 1\), got 1.0"),
        ({"stop": "hope"}, "stop must be 'gate' or 'confidence', got 'hope'"),
        ({"path": [(0, 0)]}, "path must name each of the 6 branches .* once, got 1 of which 1 are branches"),
        (
            {"path": [(1, 0), (0, 0), (0, 1), (1, 1), (0, 2), (1, 2)]},
            r"exits of each learner in order, got \[1, 0\] for learner 0",
        ),
    ],
)
def test_pools_that_make_no_sense_are_refused(arguments, message):
    pool = Pool.fit(*calibration(40))
    with pytest.raises(ValueError, match=message):
        pool.with_(**arguments)


def test_other_committees_and_bad_labels_are_refused():
    probs, labels = calibration(40)
    pool = Pool.fit(probs, labels)
    with pytest.raises(ValueError, match="fitted on 2 exits of 3 learners, this committee has 1 of 3: fit it again"):
        replay(probs[:1], np.ones((1, 3)), pool)
    with pytest.raises(ValueError, match="labels must lie in 0 to 3"):
        Pool.fit(probs, labels + 9)
    with pytest.raises(ValueError, match="labels must be 40 integers"):
        Pool.fit(probs, labels[:-1])
    with pytest.raises(ValueError, match="needs calibration samples"):
        Pool.fit(probs[:, :, :0], labels[:0])
