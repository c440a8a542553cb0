import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.squad import Agreement, Cascade, Confidence, Soft, Static, replay
from quorate.squad.path import breadth_first, by_cumulative_cost, depth_first
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


@settings(max_examples=60, deadline=None)
@given(committees(orders=False), st.sampled_from([0.01, 0.51, 0.81]), st.booleans(), st.integers(0, 99))
def test_cascade_is_whole_learners_by_cost(case, threshold, told, seed):
    num_exits, num_learners = case.macs.shape
    whole = case.macs.sum(0)
    path = [(num_exits - 1) * num_learners + k for k in sorted(range(num_learners), key=lambda k: (whole[k], k))]
    arrival = arrivals(case, seed) if told else None

    def stops(_, deepest):
        return max(squad_paths.soft(deepest)) > threshold

    agrees(case, Cascade(threshold), lambda _: path, squad_paths.soft, stops, arrival, exact=False)


@settings(max_examples=100, deadline=None)
@given(
    committees(orders=False), st.sampled_from(["depth", "breadth", "arrival"]), st.sampled_from([0.01, 0.51, 0.81]),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_soft_is_the_mean_of_the_deepest_so_far(case, walk, threshold, told, seed):
    arrival = arrivals(case, seed) if told else None
    by_cost = by_cumulative_cost(case.macs)

    def branches(arrived):
        path = {"depth": depth_first, "breadth": breadth_first}[walk](case.macs) if walk != "arrival" else None
        return squad_paths.sequence(path, by_cost, arrived)

    def stops(_, deepest):
        return max(squad_paths.soft(deepest)) > threshold

    agrees(case, Soft(walk, threshold), branches, squad_paths.soft, stops, arrival, exact=False)


@settings(max_examples=100, deadline=None)
@given(committees(orders=False), st.sampled_from([1.0, 2 / 3, 0.5, 0.01]), st.booleans(), st.integers(0, 99))
def test_agreement_is_a_share_of_the_learners(case, share, told, seed):
    num_learners = case.macs.shape[1]
    path = breadth_first(case.macs)
    arrival = arrivals(case, seed) if told else None

    def ballots(deepest):
        depth = max(e for e, _ in deepest.values())
        at = {k: p for k, (e, p) in deepest.items() if e == depth}
        return {k: max(range(len(p)), key=lambda c: (p[c], -c)) for k, p in at.items()}, at

    def stops(branch, deepest):
        votes, _ = ballots(deepest)
        most = max(list(votes.values()).count(v) for v in votes.values())
        return path.index(branch) % num_learners == num_learners - 1 and most / num_learners >= share

    def mix(deepest):
        votes, at = ballots(deepest)
        classes = sorted(set(votes.values()))
        mass = {c: (list(votes.values()).count(c), sum(p[c] for _, p in sorted(at.items())), -c) for c in classes}
        mine = [at[k] for k, v in votes.items() if v == max(classes, key=mass.get)]
        return [sum(p[c] for p in mine) / len(mine) for c in range(case.probs.shape[3])]

    agrees(case, Agreement(share), lambda _: path, mix, stops, arrival, exact=False)


def test_thresholds_and_learners_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\), got 1.6"):
        Confidence(threshold=1.6)
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\], got 0"):
        Agreement(0)
    with pytest.raises(ValueError, match="walk must be 'depth', 'breadth' or 'arrival', got 'random'"):
        Soft("random")
    with pytest.raises(ValueError, match="learner must lie in 0 to 1, got 2"):
        replay(np.full((1, 2, 1, 2), 0.5), [[1, 1]], Confidence(learner=2))
