import threading
import warnings

import numpy as np
import pytest

from quorate.engine import Committee
from quorate.engine.recorded import RecordedNetworks
from quorate.engine.workers import Crew
from quorate.squad import Rule, Static
from quorate.store.timings import Timing, this_machine
from tests.engine.test_parallel import Looked, votes_of

PROBS, MACS = votes_of(0, 6)


def committee(**rest):
    return Committee(Looked(PROBS), Rule("mean", 0.6), MACS, **rest)


@pytest.mark.parametrize("source", ["lazy", "eager", "parallel"])
def test_a_deadline_may_be_as_far_away_as_one_likes(source):
    wanted = committee(source=source)(np.arange(6)).label
    for far in (1e13, 1e300, float("inf"), np.float32(1e6), 10**6):
        assert committee(source=source, workers=2)(np.arange(6), deadline_ms=far).label.tolist() == wanted.tolist()


@pytest.mark.parametrize("source", ["lazy", "eager", "parallel"])
def test_no_time_at_all_is_no_error(source):
    for near in (0, -0.0, 1e-9):
        answer = committee(source=source, workers=2)(np.arange(6), deadline_ms=near)
        assert answer.label.tolist() == [-1] * 6
        assert answer.late.all()
        assert answer.lazy_macs.sum() == 0


@pytest.mark.parametrize("wrong", ["5", True, [1], 1j])
def test_a_deadline_is_a_number(wrong):
    with pytest.raises(TypeError, match="deadline_ms must be a number of milliseconds, or None, got"):
        committee()(np.arange(6), deadline_ms=wrong)


def test_what_is_no_policy_source_or_committee_is_refused_at_once():
    for wrong in ("squad", Rule, None):
        with pytest.raises(TypeError, match="policy must be a policy such as Rule"):
            committee().with_policy(wrong)
    with pytest.raises(ValueError, match="source must be one of lazy, eager, parallel, auto, got 'greedy'"):
        committee().with_policy(Static(), "greedy")
    with pytest.raises(TypeError, match="learners must be a list of them, or networks, got NoneType"):
        Committee(None, Static(), MACS)
    with pytest.raises(TypeError, match="inputs must be an InputSpec, or a list of one for each learner, got 3"):
        committee(inputs=3)
    with pytest.raises(ValueError, match="racing must be the same branches"):
        committee(racing=RecordedNetworks(PROBS[:2]))


def measured(fastest, hardware=None):
    return Timing("recorded", "cpu", 1, {1: MACS}, hardware or this_machine(), {}, {"fastest": fastest})


def test_auto_takes_what_was_the_fastest_at_the_batch_size_nearest():
    auto = committee(source="auto", timings=[measured({"1": "parallel", "32": "eager", "256": "lazy"})])
    assert [auto.fastest(n) for n in (0, 1, 4, 8, 60, 100, 10**6)] == ["parallel"] * 3 + ["eager"] * 2 + ["lazy"] * 2
    assert auto(np.arange(1)).arrival is not None
    assert auto(np.arange(6)).arrival is None


def test_auto_says_so_where_nobody_measured_on_this_machine():
    elsewhere = measured({"1": "eager"}, {"machine": "abacus"})
    for timings in ([], [elsewhere], [Timing("recorded", "cpu", 1, {1: MACS}, this_machine())]):
        with pytest.warns(UserWarning, match="nobody measured here which source is the fastest, so it is lazy"):
            assert committee(source="auto", timings=timings).fastest(1) == "lazy"
    with pytest.warns(UserWarning, match="nobody measured here"):
        committee().with_policy(Static(), "auto")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        committee(source="auto", timings=[elsewhere, measured({"1": "eager"})])


@pytest.mark.parametrize("wrong", [3, None, {"x": "lazy"}, {"0": "lazy"}, {"-2": "lazy"}, {"1": 4}, {"9" * 10: "lazy"}])
def test_a_measurement_names_the_fastest_by_batch_size(wrong):
    with pytest.raises(ValueError, match="fastest of a measurement must name sources by batch size"):
        measured(wrong)


def test_threads_that_call_first_at_once_share_one_crew(monkeypatch):
    made, together = [], threading.Barrier(4)

    class Counted(Crew):
        def __init__(self, *rest):
            made.append(self)
            threading.Event().wait(0.02)
            super().__init__(*rest)

    monkeypatch.setattr("quorate.engine.committee.Crew", Counted)
    shared, found = committee(source="parallel", workers=2), []

    def call():
        together.wait()
        found.append(shared(np.arange(6)).label.tolist())

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert len(found) == 4
