import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.engine.progress import Progress
from quorate.engine.recorded import RecordedNetworks
from quorate.engine.single import ROW, Single
from quorate.squad.cost import costs
from quorate.squad.voting import plurality

SIZES = st.integers(1, 4)


class Moody(RecordedNetworks):
    """Raises, or gives NaN or another shape, where it is told to."""

    def __init__(self, probs, present, chained, moods):
        super().__init__(probs, present, chained)
        self.moods = moods

    def run(self, learner, exit, state):
        mood = self.moods.get((exit, learner))
        if mood == "raises":
            raise RuntimeError("out of luck")
        state, probs = super().run(learner, exit, state)
        if mood == "nan":
            probs = np.full_like(probs, np.nan)
        return state, probs[:, :1] if mood == "narrow" else probs


@settings(max_examples=200, deadline=None)
@given(SIZES, SIZES, st.booleans(), st.integers(0, 2**16), st.data())
def test_one_sample_goes_as_a_batch_of_one_does(num_exits, num_learners, chained, seed, data):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(3), size=(num_exits, num_learners, 1)).astype(np.float32)
    begins = rng.integers(0, num_exits, size=num_learners)
    present = np.arange(num_exits)[:, None] >= begins
    branches = st.tuples(st.integers(0, num_exits - 1), st.integers(0, num_learners - 1))
    moods = data.draw(st.dictionaries(branches, st.sampled_from(["raises", "nan", "narrow"]), max_size=2))
    networks = Moody(probs, present, chained, moods)
    whole, single = Progress(networks, None, 1), Single(networks, None)
    for e, k in data.draw(st.lists(branches, max_size=8)):
        np.testing.assert_array_equal(single.advance(k, e, ROW), whole.advance(k, e, ROW))
        np.testing.assert_array_equal(single.ran, whole.ran)
        np.testing.assert_array_equal(single.processed, whole.processed)
        assert single.faults == whole.faults
    for progress in (whole, single):
        progress.forget(np.zeros(1, bool))
        assert progress.held == 0


@settings(max_examples=200, deadline=None)
@given(SIZES, SIZES, st.booleans(), st.booleans(), st.integers(0, 2**16))
def test_costs_of_one_sample_are_those_of_a_batch(num_exits, num_learners, stages, chained, seed):
    rng = np.random.default_rng(seed)
    waited = rng.integers(-1, 3, size=(num_exits, num_learners, 4))
    cast, asks = (waited >= 0) & (rng.random(waited.shape) < 0.7), rng.random(num_learners) < 0.8
    macs = rng.random((num_exits, num_learners)) * 1e7
    together = costs(waited, cast, asks, macs, stages, chained)
    for n in range(4):
        alone = costs(waited[:, :, [n]], cast[:, :, [n]], asks, macs, stages, chained)
        for name, one, all_ in zip(together._fields, alone, together, strict=True):
            assert one.dtype == np.float64
            np.testing.assert_array_equal(one, all_[[n]], err_msg=name)


@settings(max_examples=200, deadline=None)
@given(SIZES, st.integers(0, 2**16))
def test_the_plurality_of_one_sample_is_that_of_a_batch(num_learners, seed):
    rng = np.random.default_rng(seed)
    votes = rng.integers(-1, 3, size=(num_learners, 5))
    probs = (rng.integers(0, 4, size=(num_learners, 5, 3)) / 4).astype(np.float32)  # ties in mass as well
    together = plurality(votes, probs)
    for n in range(5):
        assert plurality(votes[:, [n]], probs[:, [n]]).tolist() == [together[n]]


@pytest.mark.parametrize("size", [1, 2])
def test_a_source_takes_the_short_way_for_one_sample(size):
    from quorate.engine.sources import Lazy

    networks = RecordedNetworks(np.full((1, 1, size, 2), 0.5))
    assert isinstance(Lazy(networks, None, size).progress, Single if size == 1 else Progress)
