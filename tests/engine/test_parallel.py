import gc
import itertools
import os
import resource
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch

from quorate.engine import Committee
from quorate.engine.networks import Stop, Stopped
from quorate.engine.recorded import RecordedNetworks
from quorate.engine.workers import Crew
from quorate.squad import Agreement, Cascade, Confidence, Lattice, Rule, Soft, Static, replay
from tests.engine.cases import assert_same, order_of
from tests.engine.learners import tiny_committee
from tests.squad.cases import Case
from tests.squad.test_pool import random_pool


class Looked(RecordedNetworks):
    """Recorded votes of the samples whose numbers are given as the call's inputs, brought with delays."""

    def __init__(self, probs, delays=None, **rest):
        super().__init__(probs, **rest)
        self.delays = delays

    def first(self, learner, inputs, rows):
        state = super().first(learner, inputs, rows)
        state[:, 0] = inputs.of(learner, rows)
        return state

    def run(self, learner, exit, state):
        if self.delays is not None:
            time.sleep(self.delays(learner, exit))
        return super().run(learner, exit, state)


def votes_of(seed, n, num_exits=3, num_learners=3, classes=3):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(1, 1, n, classes)) * 2
    logits = rng.normal(size=(num_exits, num_learners, n, classes)) * 2 + shared
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return probs.astype(np.float32), rng.integers(1, 6, size=(num_exits, num_learners)).astype(float)


def some_policies(probs, macs):
    pool = random_pool(Case(probs, macs, None, None), np.random.default_rng(0))
    return [
        Rule("mean", 0.6), Rule(threshold=0.4), Rule("mean", 0.7, panel="all"), Static(), Confidence(1, 0.7),
        Cascade(0.7), Soft("breadth", 0.7), Soft("arrival", 0.7), Agreement(), pool.with_(threshold=0.4),
        pool.with_(threshold=0.4, path=[(e, k) for k in (1, 0, 2) for e in range(3)]),
    ]  # fmt: skip


def replayed(answer, probs, macs, policy, chained=True):
    return replay(probs, macs, policy, arrival=answer.arrival, present=~answer.absent, chained=chained)


def assert_replays(answer, probs, macs, policy, rows=slice(None), chained=True):
    wanted = replayed(answer, probs, macs, policy, chained)
    assert_same(answer._replace(confidence=answer.confidence.astype(np.float64)), wanted._replace(
        confidence=wanted.confidence.astype(np.float64)), rows)  # fmt: skip


def test_a_thousand_calls_are_reproduced_from_the_order_of_arrival():
    probs, macs = votes_of(0, 60)
    rng, orders = np.random.default_rng(1), set()
    networks = Looked(probs, lambda k, e: float(rng.choice([0.0, 1e-4, 3e-4])))
    committees = [
        Committee(networks, policy, macs, source="parallel", workers=workers)
        for policy in some_policies(probs, macs)
        for workers in (1, 2, 3)
    ]
    for i in range(1000):
        committee = committees[i % len(committees)]
        at = rng.choice(60, size=int(rng.choice([1, 1, 2, 5])), replace=False)
        answer = committee(at)
        assert_replays(answer, probs[:, :, at], macs, committee.policy)
        assert not answer.late.any()
        assert not answer.absent.any()
        assert answer.faults == ()
        assert (answer.branches * macs).sum() >= answer.lazy_macs.sum()
        orders |= set(map(tuple, answer.arrival.T.tolist()))
    assert len(orders) > 100


def test_whole_models_race_too():
    probs, macs = votes_of(3, 8)
    for policy in (Cascade(0.7), Agreement(), Rule("mean", 0.6)):
        committee = Committee(Looked(probs, chained=False), policy, macs, source="parallel", workers=2)
        answer = committee(np.arange(8))
        assert_replays(answer, probs, macs, policy, chained=False)


def test_learners_that_are_never_asked_do_not_run():
    probs, macs = votes_of(0, 10)
    answer = Committee(Looked(probs), Confidence(2, 0.9), macs, source="parallel", workers=3)(np.arange(10))
    assert answer.branches[:, :2].sum() == 0
    assert answer.branches[:, 2].tolist() == [10, (answer.exit > 0).sum(), (answer.exit > 1).sum()]


def test_absent_branches_are_told_as_soon_as_they_are_wanted():
    probs, macs = votes_of(0, 10, num_exits=2)
    present = np.array([[True, False, True], [True, True, True]])
    macs[~present] = 0
    for policy in (Rule("mean", 0.99), Static(), Agreement()):
        answer = Committee(Looked(probs, present=present), policy, macs, source="parallel", workers=2)(np.arange(10))
        assert_replays(answer, probs, macs, policy)
        assert answer.faults == ()


def test_decided_rows_leave_the_batches():
    sizes = []

    class Watched(Looked):
        def run(self, learner, exit, state):
            sizes.append((learner, exit, len(state)))
            return super().run(learner, exit, state)

    probs, macs = votes_of(0, 200)
    answer = Committee(Watched(probs), Rule("mean", 0.5), macs, source="parallel", workers=1)(np.arange(200))
    left = (answer.exit > 0).sum()
    assert 0 < left < 200
    assert all(n <= left for _, e, n in sizes if e > 0)


class Faulty(Looked):
    """Learners that misbehave from exit 1 on: ``kinds`` by learner."""

    def __init__(self, probs, kinds):
        super().__init__(probs)
        self.kinds, self.go = kinds, threading.Event()

    def run(self, learner, exit, state):
        state, probs = super().run(learner, exit, state)
        kind = self.kinds.get(learner) if exit else None
        if kind == "sleeps":
            time.sleep(0.004)
        elif kind == "raises":
            raise RuntimeError("out of luck")
        elif kind == "nan":
            probs = np.full_like(probs, np.nan)
        elif kind == "never":
            self.go.wait()
        return state, probs


KINDS = ("sleeps", "raises", "nan", "never")
COMBINATIONS = [dict(zip(who, what, strict=True)) for size in range(3)
                for who in itertools.combinations(range(3), size)
                for what in itertools.product(KINDS, repeat=size)]  # fmt: skip


def best_so_far(answer, probs, macs, policy):
    """The verdict after exactly the votes that were told, one by one."""
    order, labels = order_of(macs), []
    for i in range(probs.shape[2]):
        state = policy.start(1, Lattice(macs, order, probs.shape[3], probs[0, 0, :0]))
        for branch in answer.arrival[:, i].tolist():
            e, k = divmod(branch, macs.shape[1])
            if branch >= 0:
                said = np.where(answer.absent[e, k, i], np.nan, probs[e, k, i])[None]
                state = policy.tell(state, np.arange(1), branch, said)
        labels.append(int(policy.verdict(state).label[0]))
    return labels


@pytest.mark.parametrize("kinds", COMBINATIONS, ids=str)
def test_whatever_up_to_all_but_one_learner_do_nothing_is_lost_and_nothing_wrong(kinds):
    probs, macs = votes_of(7, 12)
    networks = Faulty(probs, kinds)
    committee = Committee(networks, Rule("mean", 0.97), macs, source="parallel", workers=3)
    committee.crew.patience = 0.01
    hanging = {k for k, kind in kinds.items() if kind == "never"}
    healthy = set(range(3)) - {k for k, kind in kinds.items() if kind != "sleeps"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for call in range(3):
            answer = committee(np.arange(12), deadline_ms=200 if hanging and not call else None)
            assert (answer.label >= 0).all()
            assert best_so_far(answer, probs, macs, committee.policy) == answer.label.tolist()
            on_time = np.flatnonzero(~answer.late)
            if len(on_time):
                assert_replays(answer, probs, macs, committee.policy, on_time)
            faulty = {fault.learner for fault in answer.faults}
            if call:
                assert not answer.late.any()  # whoever hangs was left behind
                assert hanging <= faulty
                assert all("has not come back" in fault.reason for fault in answer.faults if fault.learner in hanging)
                told = {divmod(branch, 3) for branch in answer.arrival[:, answer.exit == 2].ravel().tolist()}
                assert {(e, k) for e in range(2) for k in healthy} <= told
            assert not faulty & healthy
            time.sleep(0.02)
        assert committee.crew.threads <= 6
        networks.kinds = {}
        networks.go.set()
        while committee.crew._busy:
            time.sleep(0.002)
        answer = committee(np.arange(12))
    assert answer.faults == ()
    assert_replays(answer, probs, macs, committee.policy)


def test_before_the_first_vote_there_is_no_answer_and_no_error():
    probs, macs = votes_of(0, 4)
    committee = Committee(Looked(probs, lambda k, e: 0.2), Rule("mean", 0.5), macs, source="parallel", workers=3)
    answer = committee(np.arange(4), deadline_ms=5)
    assert answer.late.all()
    assert answer.label.tolist() == [-1] * 4
    with pytest.raises(ValueError, match="deadline_ms must not be negative, got -1"):
        committee(np.arange(4), deadline_ms=-1)


@pytest.mark.parametrize("source", ["lazy", "eager"])
def test_one_device_looks_at_the_clock_after_every_vote(source):
    probs, macs = votes_of(0, 4)
    committee = Committee(Looked(probs, lambda k, e: 0.01), Static(), macs, source=source)
    answer = committee(np.arange(4), deadline_ms=25)
    assert answer.late.all()
    assert answer.branches.sum() < 9 * 4
    assert (answer.label >= 0).all()
    assert answer.arrival is None
    assert not committee(np.arange(4)).late.any()


class Endable(Looked):
    """Branches that can be ended: they wait to be told, or for their time to pass."""

    def run_until(self, learner, exit, state, stop: Stop):
        told = threading.Event()
        with stop.ending(told.set):
            if told.wait(self.delays(learner, exit)):
                raise Stopped
            return RecordedNetworks.run(self, learner, exit, state)


def agreeing(n=2, num_exits=2, num_learners=3):
    probs = np.full((num_exits, num_learners, n, 2), 0.1, np.float32)
    probs[..., 0] = 0.9
    return probs, np.tile(np.arange(1.0, num_learners + 1), (num_exits, 1))


def test_what_is_no_longer_needed_is_stopped_and_the_saving_is_measured():
    probs, macs = agreeing()
    delays = {0: 0.002, 1: 0.004, 2: 0.3}
    committee = Committee(Endable(probs, lambda k, e: delays[k]), Rule("mean", 0.5), macs, source="parallel", workers=3)
    with_all = committee.with_policy(Static())
    with_all(np.arange(2))  # so that it is known how long a branch takes
    answer = committee(np.arange(2))
    assert answer.branches[:, 2].sum() == 0
    while committee.crew._busy:
        time.sleep(0.002)
    stops = committee.crew.stops
    assert 1 <= stops.stopped == len(stops.freed_ms) <= 2
    assert 0 < stops.saved_ms <= 310 * stops.stopped


def test_with_fewer_workers_the_cheapest_start_first_and_what_is_wanted_takes_a_place():
    probs, macs = agreeing()
    probs[0, :, :] = [0.55, 0.45]  # agreed, not sure: everybody goes deeper
    begun = []
    delays = {0: 0.002, 1: 0.02, 2: 3.0}

    def delay(k, e):
        begun.append((e, k))
        return delays[k]

    committee = Committee(Endable(probs, delay), Rule("mean", 0.8), macs, source="parallel", workers=2)
    answer = committee(np.arange(2))
    assert committee.crew.stops.stopped or not answer.branches[0, 2]
    assert sorted(begun[:2]) == [(0, 0), (0, 1)]
    assert answer.exit.tolist() == [1, 1]
    assert_replays(answer, probs, macs, committee.policy)


def test_a_branch_that_gave_way_is_repeated():
    probs, macs = agreeing(num_exits=1)
    probs[0, 1] = [0.1, 0.9]  # the second disagrees, so the third is needed
    delays = {0: 0.001, 1: 0.01, 2: 0.03}
    committee = Committee(Endable(probs, lambda k, e: delays[k]), Rule("mean", 0.5), macs, source="parallel", workers=1)
    answer = committee(np.arange(2))
    assert answer.branches.tolist() == [[2, 2, 2]]
    assert_replays(answer, probs, macs, committee.policy)


def test_inputs_that_no_learner_reads_are_the_callers_mistake():
    class Refusing(Looked):
        def first(self, learner, inputs, rows):
            raise ValueError("learner 0 reads a, b")

    committee = Committee(Refusing(agreeing()[0]), Rule("mean"), agreeing()[1], source="parallel", workers=2)
    with pytest.raises(ValueError, match="learner 0 reads a, b"):
        committee(np.arange(2))


@pytest.mark.parametrize("exits", [[3, 3, 3], [3, 1, 2]])
def test_learners_of_torch_answer_as_they_are_replayed(exits):
    learners, macs = tiny_committee(0, exits)
    images = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    for policy in (Rule("mean", 0.6), Static(), Confidence(1, 0.6)):
        committee = Committee(learners, policy, macs, source="parallel", workers=2)
        votes = committee.record(images, np.zeros(30))
        answer = committee(images)
        said = votes.probs
        wanted = replay(said, macs, policy, arrival=answer.arrival, present=~answer.absent)
        assert (answer.label != wanted.label).sum() <= 1
        assert (answer.lazy_macs != wanted.lazy_macs).sum() <= 1
        np.testing.assert_allclose(answer.probs, wanted.probs, atol=1e-4)


def test_many_threads_may_call_one_committee_and_no_sample_is_mixed_up():
    probs, macs = votes_of(0, 60)
    committee = Committee(Looked(probs, lambda k, e: 1e-4), Rule("mean", 0.6), macs, source="parallel", workers=2)
    failed = []

    def call(i):
        for _ in range(10):
            at = np.arange(i, 60, 8)
            answer = committee(at)
            try:
                assert_replays(answer, probs[:, :, at], macs, committee.policy)
            except AssertionError as error:
                failed.append(error)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def workers_alive():
    return sum(thread.name == "quorate-worker" for thread in threading.enumerate())


def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("calls", [1500, pytest.param(10_000, marks=pytest.mark.heavy)])
def test_calls_leave_neither_threads_nor_memory_behind(calls):
    gc.collect()
    before = workers_alive()
    probs, macs = votes_of(0, 4)
    committee = Committee(Looked(probs), Rule("mean", 0.6), macs, source="parallel", workers=2)
    for _ in range(300):
        committee(np.arange(4))
    held, most = memory(), 0
    for _ in range(calls):
        committee(np.arange(4))
        most = max(most, committee.crew.threads)
    gc.collect()
    assert memory() - held < 2e6
    assert most <= 5
    del committee
    gc.collect()
    for _ in range(100):
        if workers_alive() <= before:
            break
        time.sleep(0.01)
    assert workers_alive() <= before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_has_workers_of_its_own():
    probs, macs = votes_of(0, 4)
    committee = Committee(Looked(probs), Rule("mean", 0.6), macs, source="parallel", workers=2)
    wanted = committee(np.arange(4))
    child = os.fork()
    if not child:
        same = committee(np.arange(4)).arrival.shape == wanted.arrival.shape
        os._exit(0 if same else 1)
    for _ in range(1000):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.01)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        pytest.fail("the child waits for its parent's workers")
    assert os.waitstatus_to_exitcode(status) == 0


def test_workers_must_be_some():
    learners, macs = tiny_committee(0, [2, 2])
    with pytest.raises(ValueError, match="workers must be at least 1"):
        Committee(learners, Rule("mean"), macs, workers=0)
    with pytest.raises(ValueError, match="workers must be at least 1, got 0"):
        Crew(RecordedNetworks(agreeing()[0]), 0)


def test_a_stop_that_comes_first_is_heard():
    stop = Stop()
    stop.request()
    with pytest.raises(Stopped), stop.ending(lambda: None):
        pass
