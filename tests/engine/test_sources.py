import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.engine import Eager, Lazy
from quorate.engine.progress import Progress
from quorate.engine.recorded import RecordedNetworks
from quorate.squad import Lattice, Rule, Static, drive, replay
from tests.engine.cases import assert_same, decide, order_of, policies
from tests.squad.cases import Case, committees


@st.composite
def large(draw):
    """More samples than :func:`committees` has, with learners that lack their first exits."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 4)), draw(st.integers(1, 5)), draw(st.integers(1, 300)), draw(st.integers(2, 4))
    shared = rng.normal(size=(1, 1, *shape[2:])) * 3
    logits = rng.normal(size=shape) * 2 + shared
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    begin = rng.integers(0, shape[0], size=shape[1])
    begin[rng.integers(shape[1])] = 0
    present = np.arange(shape[0])[:, None] >= begin
    macs = rng.integers(1, 6, size=shape[:2]) * present.astype(float)
    return Case(probs, macs, None, np.repeat(present[:, :, None], shape[2], axis=2))


def networks_of(case, chained):
    present = np.ones(case.macs.shape, bool) if case.present is None else case.present.any(2)
    probs = case.probs if case.present is None else np.where(case.present[..., None], case.probs, np.nan)
    return RecordedNetworks(probs, present if (np.diff(present.astype(int), axis=0) >= 0).all() else None, chained)


@settings(max_examples=150, deadline=None)
@given(st.one_of(committees(max_learners=5, orders=False), large()), st.booleans(), st.data())
def test_a_lazy_source_decides_as_recorded_votes_do_and_runs_what_it_charges(case, chained, data):
    policy = data.draw(policies(case))
    _, _, n, classes = case.probs.shape
    source = Lazy(networks_of(case, chained), None, n)
    got, ran = decide(policy, source, n, case.macs, classes, case.probs.dtype, chained)
    if (got.label < 0).all():
        return
    wanted = replay(case.probs, case.macs, policy, present=case.present, chained=chained)
    assert_same(got, wanted)
    assert (ran * case.macs).sum() == wanted.lazy_macs.sum()
    lost = source.progress.processed - ran
    assert lost.min() >= 0
    assert lost.sum(0).tolist() == [
        sum(sum(f.ran) for f in source.faults if f.learner == k) for k in range(len(case.macs[0]))
    ]


@settings(max_examples=100, deadline=None)
@given(st.one_of(committees(max_learners=5, orders=False, absences=False), large()), st.data())
def test_an_eager_source_gives_the_same_answers_and_runs_whole_exits(case, data):
    policy = data.draw(policies(case))
    _, _, n, classes = case.probs.shape
    source = Eager(networks_of(case, True), None, n, order_of(case.macs))
    got, ran = decide(policy, source, n, case.macs, classes, case.probs.dtype)
    if (got.label < 0).all():
        return
    wanted = replay(case.probs, case.macs, policy, present=case.present)
    assert_same(got, wanted)
    assert (ran * case.macs).sum() == pytest.approx(wanted.eager_macs.sum(), rel=1e-12)


class Raising(RecordedNetworks):
    """Learner 1 raises at exit 1."""

    def run(self, learner, exit, state):
        if (learner, exit) == (1, 1):
            raise RuntimeError("out of luck")
        return super().run(learner, exit, state)


def scattered(n=6, num_exits=3, num_learners=3, classes=3, seed=0):
    logits = np.random.default_rng(seed).normal(size=(num_exits, num_learners, n, classes))
    return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


def test_a_learner_that_raises_abstains_from_then_on_and_is_not_run_again():
    probs, macs = scattered(), np.ones((3, 3))
    source = Lazy(Raising(probs), None, 6)
    got, ran = decide(Rule("mean", 0.99), source, 6, macs, 3, probs.dtype)
    present = np.ones(probs.shape[:3], bool)
    present[1:, 1] = False
    assert_same(got, replay(probs, macs, Rule("mean", 0.99), present=present))
    (fault,) = source.faults
    assert (fault.learner, fault.exit, fault.reason) == (1, 1, "RuntimeError: out of luck")
    assert fault.samples == 6
    assert fault.ran == (0, source.progress.processed[1, 1], 0)
    assert source.progress.processed[2, 1] == 0
    assert (ran * macs).sum() == got.lazy_macs.sum()


def test_branches_run_on_the_way_to_a_learner_that_raises_are_told_apart():
    source = Lazy(Raising(scattered()), None, 6)
    got, ran = decide(Static(), source, 6, np.ones((3, 3)), 3, np.float64)
    assert ran[:, 1].tolist() == [0, 0, 0]
    assert source.faults[0].ran == (6, 6, 0)
    assert ran.sum() == got.lazy_macs.sum() == 36


def test_a_learner_that_gives_nan_abstains_for_those_samples_only():
    probs = scattered()
    probs[0, 0, 2:4] = np.nan
    source = Lazy(RecordedNetworks(probs), None, 6)
    got, ran = decide(Rule("mean", 0.99), source, 6, np.ones((3, 3)), 3, probs.dtype)
    present = ~np.isnan(probs[..., 0])
    assert_same(got, replay(probs, np.ones((3, 3)), Rule("mean", 0.99), present=present))
    assert source.faults[0][:4] == (0, 0, "it gave NaN", 2)
    assert ran.sum() == got.lazy_macs.sum()


def test_what_is_no_distribution_over_the_classes_is_a_fault():
    networks = RecordedNetworks(scattered())
    networks.classes = 4
    progress = Progress(networks, None, 6)
    assert np.isnan(progress.advance(0, 0, np.arange(6))).all()
    assert "4 numbers for each of 6 samples" in progress.faults[0].reason


def test_samples_catch_up_from_wherever_they_stopped_and_continue_as_one_batch():
    seen = []

    class Watched(RecordedNetworks):
        def run(self, learner, exit, state):
            seen.append((exit, sorted(state[:, 0].tolist())))
            return super().run(learner, exit, state)

    progress = Progress(Watched(scattered()), None, 6)
    progress.advance(0, 0, np.array([0, 1]))
    progress.advance(0, 1, np.array([1, 2]))
    progress.advance(0, 2, np.arange(5))
    assert seen == [(0, [0, 1]), (0, [2]), (1, [1, 2]), (0, [3, 4]), (1, [0, 3, 4]), (2, [0, 1, 2, 3, 4])]
    assert progress.held == 0
    assert np.array_equal(progress.advance(0, 0, np.array([4])), scattered()[0, 0, [4]])
    assert len(seen) == 6


def test_decided_samples_leave_no_state_behind():
    progress = Progress(RecordedNetworks(scattered(n=100)), None, 100)
    progress.advance(0, 0, np.arange(100))
    progress.forget(np.arange(100) < 70)
    assert progress.held == 100
    progress.forget(np.arange(100) < 50)
    assert progress.held == 50
    progress.forget(np.zeros(100, bool))
    assert progress.held == 0


def test_absent_branches_cost_nothing_and_are_no_fault():
    probs, present = scattered(num_exits=2), np.array([[True, False, True], [True, True, True]])
    source = Lazy(RecordedNetworks(probs, present), None, 6)
    lattice = Lattice(np.ones((2, 3)), order_of(np.ones((2, 3))), 3, probs[0, 0, :0])
    _, ran = drive(Static(), source, 6, lattice)
    assert ran.tolist() == [[6, 0, 6], [6, 6, 6]]
    assert source.faults == ()
