import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.by_definition import measures_plain as plain

from quorate.measures import ppd

shapes = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 8))


@given(shapes.flatmap(lambda s: st.tuples(arrays(np.int64, s, elements=st.integers(0, 3)), arrays(np.bool_, s))))
def test_equals_the_definition(case):
    votes, present = case
    np.testing.assert_allclose(ppd(votes, present), plain.ppd(votes.tolist(), present.tolist()), atol=1e-12)
    everybody = np.ones_like(present)
    np.testing.assert_allclose(ppd(votes), plain.ppd(votes.tolist(), everybody.tolist()), atol=1e-12)


def test_known_answers():
    assert ppd([[[0, 1], [0, 1], [0, 1]]]).tolist() == [0]
    assert ppd([[[0], [1], [2]]]).tolist() == [1]
    assert ppd([[[0], [0], [1]]]).tolist() == pytest.approx([2 / 3])  # one dissenter of three
    assert np.isnan(ppd([[[0, 1]]])).all()  # a single learner has no pairs


def test_an_absent_learner_neither_agrees_nor_disagrees():
    votes = np.array([[[0, 0], [0, 1], [7, 7]]])
    present = np.array([[[True, True], [True, True], [False, False]]])
    assert ppd(votes, present).tolist() == [0.5]


def test_torch_tensors_give_what_numpy_gives():
    torch = pytest.importorskip("torch")
    votes = torch.randint(0, 3, (2, 4, 50), generator=torch.Generator().manual_seed(0))
    np.testing.assert_array_equal(ppd(votes), ppd(votes.numpy()))


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"dimensions .exits, learners, samples., none empty, got \(2,\)"):
        ppd([0, 1])
    with pytest.raises(ValueError, match="none empty"):
        ppd(np.zeros((1, 3, 0), dtype=int))
    with pytest.raises(ValueError, match="present must have the shape of votes"):
        ppd([[[0], [1]]], [[[True]]])
    with pytest.raises(TypeError, match="argmax"):
        ppd([[[0.2], [0.8]]])
    with pytest.raises(TypeError, match="present must hold booleans"):
        ppd([[[0], [1]]], [[[1], [1]]])
