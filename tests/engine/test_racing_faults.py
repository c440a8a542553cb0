import threading
import time

import numpy as np
import pytest

from quorate.engine import Committee
from quorate.engine.networks import checked
from quorate.engine.parallel import Arrival
from quorate.engine.recorded import RecordedNetworks
from quorate.engine.workers import Crew
from quorate.squad import Lattice, Rule, Static, drive
from tests.engine.cases import order_of
from tests.engine.test_parallel import Looked, assert_replays, votes_of


class Broken(RecordedNetworks):
    """Learner 0 gives what is no distribution over the classes at the first exit, and ``then`` at the next."""

    def __init__(self, probs, wrong, then):
        super().__init__(probs)
        self.wrong, self.then = wrong, then

    def run(self, learner, exit, state):
        given = super().run(learner, exit, state)
        if learner == 0 and exit == 1 and self.then == "raises":
            raise RuntimeError("out of luck")
        return (given[0], self.wrong) if learner == 0 and (exit == 0 or self.then == "wrong") else given


def driven(source, macs, probs):
    """What comes of it, unless it waits for ever."""
    found = []
    lattice = Lattice(macs, order_of(macs), probs.shape[3], probs[0, 0, :0])
    thread = threading.Thread(target=lambda: found.append(drive(Rule("mean", 0.99), source, 4, lattice)), daemon=True)
    thread.start()
    thread.join(5)
    assert found, "the call waits for ever, or raised"
    return found[0]


@pytest.mark.parametrize("then", ["wrong", "raises", "well"])
@pytest.mark.parametrize("wrong", [np.zeros((4, 2)), np.zeros((3, 3)), None, 0.5], ids=["few", "short", "none", "one"])
def test_a_learner_that_went_on_with_wrong_numbers_is_silent_from_its_first_fault_on(wrong, then):
    probs, macs = votes_of(0, 4)
    networks = Broken(probs, wrong, then)
    crew = Crew(networks, 3)
    other, source = (Arrival(networks, None, 4, macs, crew) for _ in range(2))  # two calls: workers go on by themselves
    until = time.monotonic() + 5
    while (crew._busy or not source._events.qsize()) and time.monotonic() < until:
        time.sleep(0.001)
    verdict, _ = driven(source, macs, probs)
    source.close()
    other.close()
    assert [(fault.learner, fault.exit) for fault in source.faults] == [(0, 0)]
    assert min(source.faults[0].ran) >= 0
    assert not verdict.cast[:, 0].any()
    told = source.arrival.T.tolist()
    assert all(len(set(one) - {-1}) == len([branch for branch in one if branch >= 0]) for one in told)


def test_wrong_numbers_do_not_end_a_worker():
    probs, macs = votes_of(0, 4)

    class Wrong(Looked):
        def run(self, learner, exit, state):
            given = super().run(learner, exit, state)
            return "nothing" if learner == 1 else given

    committee = Committee(Wrong(probs), Static(), macs, source="parallel", workers=2)
    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="learner 1 failed at exit 0"):
            answer = committee(np.arange(4))
        assert_replays(answer, probs, macs, committee.policy)


def test_numbers_of_another_form_are_named():
    with pytest.raises(ValueError, match=r"a branch must give 4 numbers for each of 2 samples, got \(2, 3\)"):
        checked((None, np.ones((2, 3))), 2, 4)
