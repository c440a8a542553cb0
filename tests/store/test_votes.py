"""What is written comes back: every field, every vote, to the precision promised."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quorate.errors import QuorateError
from quorate.squad.votes import Votes
from quorate.store import read_votes, write_votes
from quorate.store.scales import as_log_probs, as_probs

E, K, N, C = 2, 3, 5, 4
DIGITS = Path(__file__).parents[2] / "examples" / "digits.safetensors"


def make(seed=0, **fields):
    rng = np.random.default_rng(seed)
    votes = Votes(rng.dirichlet(np.ones(C), (E, K, N)), rng.integers(0, C, N), rng.uniform(1, 9, (E, K)))
    return votes._replace(**fields)


def everything():
    rng = np.random.default_rng(1)
    present = np.ones((E, K, N), dtype=bool)
    present[0, 1, 2] = present[1, 2] = False
    return make(
        split=np.array(["test", "calibration", "test", "test", "calibration"]),
        present=present,
        order=rng.permuted(np.broadcast_to(np.arange(K)[:, None], (E, K, N)), axis=1),
        arrival=rng.permuted(np.broadcast_to(np.arange(E * K)[:, None], (E * K, N)), axis=0),
        milliseconds={1: rng.uniform(size=(E, K)), 64: rng.uniform(size=(E, K))},
        chained=False,
        metadata={
            "classes": ["naïve", "b", "c", "d"],
            "learners": ["x", "y", "z"],
            "source": {"seed": 1, "none": None},
        },
    )


def assert_same(read, votes, tolerance):
    present = np.ones((E, K, N), dtype=bool) if votes.present is None else votes.present
    np.testing.assert_allclose(read.probs[present], votes.probs[present], rtol=tolerance)
    assert np.isnan(read.probs[~present]).all()
    for name in ("labels", "macs", "split", "present", "order", "arrival", "milliseconds", "chained"):
        np.testing.assert_equal(getattr(read, name), getattr(votes, name), name)
    assert read.metadata == dict(votes.metadata)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float32", 1e-6)])
@pytest.mark.parametrize("votes", [make(), everything(), make(order=np.array([[2, 0, 1], [0, 1, 2]]))])
def test_what_is_written_comes_back(tmp_path, votes, dtype, tolerance):
    write_votes(votes, tmp_path / "votes.safetensors", dtype)
    read = read_votes(tmp_path / "votes.safetensors")
    assert_same(read, votes, tolerance)
    assert (read.probs.dtype, read.labels.dtype, read.macs.dtype) == (np.float32, np.int64, np.float64)


def test_absent_branches_may_hold_nan_or_anything(tmp_path):
    votes = everything()
    for junk in (np.nan, np.inf, -7.0):
        probs = np.where(votes.present[..., None], votes.probs, junk)
        write_votes(votes._replace(probs=probs), tmp_path / "votes", "float32")
        assert_same(read_votes(tmp_path / "votes"), votes, 1e-6)


@given(arrays(np.float32, (1, 1, 30, 3), elements=st.floats(0, 1, width=32)), st.sampled_from(["float16", "float32"]))
@settings(max_examples=60)
def test_storing_never_changes_a_vote(raw, dtype):
    raw = raw + np.float32(1e-6)
    probs = (raw / raw.sum(axis=-1, keepdims=True)).astype(np.float32)
    back = as_probs(as_log_probs(probs, dtype), "log_probs")
    np.testing.assert_array_equal(back.argmax(axis=-1), probs.argmax(axis=-1))
    np.testing.assert_allclose(back.max(axis=-1), probs.max(axis=-1), rtol=2e-3 if dtype == "float16" else 1e-6)


def test_near_ties_keep_their_winner_and_exact_ties_the_lowest():
    near = np.float32([[[[0.25, 0.24999, 0.25001, 0.25]]]])
    even = np.float32([[[[0.25, 0.25, 0.25, 0.25]]]])
    assert as_probs(as_log_probs(near, "float16"), "log_probs").argmax() == 2
    assert as_probs(as_log_probs(even, "float16"), "log_probs").argmax() == 0


def test_float16_tells_confidences_apart_that_probabilities_in_float16_cannot(tmp_path):
    top = np.array([0.9993, 0.9995])
    probs = np.stack([top, 1 - top], axis=-1)[None, None]
    assert len(np.unique(top.astype(np.float16))) == 1
    write_votes(Votes(probs, np.zeros(2, dtype=int), np.ones((1, 1))), tmp_path / "votes")
    np.testing.assert_allclose(read_votes(tmp_path / "votes").probs[0, 0, :, 0], top, atol=2e-6)


def test_a_thousand_classes_in_float16_sum_to_one_again(tmp_path):
    probs = np.full((1, 1, 2, 1000), 1e-3)
    stored = np.exp(as_log_probs(np.float32(probs), "float16").astype(np.float64)).sum(axis=-1)
    assert np.abs(stored - 1).max() > 1e-3  # what the file holds does not
    write_votes(Votes(probs, np.zeros(2, dtype=int), np.ones((1, 1))), tmp_path / "votes")
    np.testing.assert_allclose(read_votes(tmp_path / "votes").probs.sum(axis=-1), 1, atol=1e-6)


def test_certainty_survives(tmp_path):
    probs = np.broadcast_to(np.eye(C)[:, [0, 0, 1, 2, 3]].T, (E, K, N, C))
    write_votes(make(probs=probs), tmp_path / "votes")
    np.testing.assert_array_equal(read_votes(tmp_path / "votes").probs, probs)


def test_torch_tensors_are_written_like_numpy_arrays(tmp_path):
    torch = pytest.importorskip("torch")
    votes = make()
    tensors = votes._replace(
        probs=torch.tensor(votes.probs, requires_grad=True),
        labels=torch.tensor(votes.labels),
        macs=torch.tensor(votes.macs),
    )
    write_votes(tensors, tmp_path / "a")
    write_votes(votes, tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    write_votes(tensors._replace(probs=tensors.probs.softmax(-1).bfloat16()), tmp_path / "c")


def test_one_split_is_taken_from_every_field():
    votes = everything()
    part, rows = votes.of("calibration"), [1, 4]
    np.testing.assert_array_equal(part.probs, votes.probs[:, :, rows])
    np.testing.assert_array_equal(part.labels, votes.labels[rows])
    np.testing.assert_array_equal(part.present, votes.present[:, :, rows])
    np.testing.assert_array_equal(part.order, votes.order[:, :, rows])
    np.testing.assert_array_equal(part.arrival, votes.arrival[:, rows])
    assert part.macs is votes.macs
    assert part.chained is False
    assert make(split=votes.split, order=np.zeros((E, K))).of("test").order.shape == (E, K)
    with pytest.raises(ValueError, match="name no splits, so there is no 'test'"):
        make().of("test")


def test_the_same_votes_make_the_same_bytes_and_leave_nothing_behind(tmp_path):
    for name in ("a", "b"):
        write_votes(everything(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "votes"
    write_votes(make(0), path)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(QuorateError, match="votes: cannot be written: No space left on device; check"):
        write_votes(make(1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_is_an_ordinary_file(tmp_path):
    write_votes(make(), tmp_path / "votes")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert len(modes) == 1
    with pytest.raises(QuorateError, match="cannot be written: No such file or directory"):
        write_votes(make(), tmp_path / "nowhere" / "votes")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"probs": np.full((E, K, N, C), 0.3)},
            r"probabilities that sum to 1, got \[0.3, 0.3, 0.3, ...\] at exit 0, learner 0",
        ),
        (
            {"probs": np.ones((K, N, C))},
            r"dimensions \(exits, learners, samples, classes\), none empty, got \(3, 5, 4\)",
        ),
        ({"probs": np.ones((E, K, 0, C))}, "none empty"),
        ({"labels": np.full(N, C)}, r"labels must lie in 0\.\.3, got 4 at sample 0"),
        ({"labels": np.zeros(N + 1, dtype=int)}, r"labels must have the shape \(5,\)"),
        ({"labels": np.zeros(N)}, "labels must hold integers, got the type float64"),
        ({"macs": np.full((E, K), -1.0)}, "macs must be finite and not negative, got -1 at exit 0, learner 0"),
        ({"split": np.array(["a\n"] * N)}, "split must hold printable names"),
        ({"present": np.ones((E, K, N))}, "present must hold booleans"),
        ({"order": np.zeros((E, K), dtype=int)}, r"order must name every learner once, got \[0, 0, 0\] at exit 0"),
        ({"order": np.zeros(K, dtype=int)}, r"order must be \[2, 3\] or \[2, 3, 5\]"),
        ({"arrival": np.full((E * K, N), 6)}, r"arrival must hold branches 0 to 5, or -1"),
        ({"arrival": np.zeros((E * K, N), dtype=int)}, "arrival must name a branch at most once"),
        ({"milliseconds": {0: np.ones((E, K))}}, "batch sizes of at least 1, got 0"),
        ({"chained": "yes"}, "chained must be one boolean, got 'yes'"),
        ({"metadata": {"f": print}}, "metadata must be what JSON can say"),
        ({"metadata": {"x": float("nan")}}, "metadata must be what JSON can say"),
    ],
)
def test_votes_that_contradict_themselves_are_not_written(tmp_path, fields, message):
    with pytest.raises(ValueError, match=message):
        write_votes(make(**fields), tmp_path / "votes")
    assert list(tmp_path.iterdir()) == []


def test_a_nan_nobody_marked_absent_is_placed(tmp_path):
    probs = make().probs.copy()
    probs[1, 2, 3, 0] = np.nan
    with pytest.raises(ValueError, match="at exit 1, learner 2, sample 3: correct it, or mark it absent"):
        write_votes(make(probs=probs), tmp_path / "votes")
    present = np.ones((E, K, N), dtype=bool)
    present[1, 2, 1] = False  # another one: the place is still told rightly
    with pytest.raises(ValueError, match="at exit 1, learner 2, sample 3"):
        write_votes(make(probs=probs, present=present), tmp_path / "votes")


def test_unknown_precision(tmp_path):
    with pytest.raises(ValueError, match="dtype must be 'float16' or 'float32', got 'int8'"):
        write_votes(make(), tmp_path / "votes", "int8")


@pytest.mark.parametrize("scale", ["probs", "logits", "log_probs"])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2"])
def test_votes_of_other_frameworks(tmp_path, scale, save, dtype):
    votes = everything()
    scores = {"probs": votes.probs, "log_probs": np.log(votes.probs), "logits": np.log(votes.probs) + 3}[scale]
    fields = {
        name: getattr(votes, name) for name in ("labels", "macs", "split", "present", "order", "arrival", "chained")
    }
    save(tmp_path / "votes.npz", **{scale: np.asfortranarray(scores.astype(dtype))}, **fields)
    read = read_votes(tmp_path / "votes.npz")
    assert_same(read, votes._replace(milliseconds=None, metadata={}), 1e-2 if dtype == "<f2" else 1e-5)


def test_small_integers_byte_strings_and_other_names_are_understood(tmp_path):
    votes = make()
    np.savez(
        tmp_path / "votes.npz",
        probs=votes.probs,
        labels=votes.labels.astype(np.uint8),
        macs=np.ones((E, K), dtype=np.int32),
        split=np.array([b"a", b"b", b"a", b"a", b"b"]),
    )
    (tmp_path / "votes.npz").rename(tmp_path / "votes.bin")  # its content tells, not its name
    read = read_votes(str(tmp_path / "votes.bin"))
    assert read.split.tolist() == ["a", "b", "a", "a", "b"]
    assert read.chained is True


def test_the_example_shows_something():
    votes = read_votes(DIGITS)
    assert votes.probs.shape == (3, 3, 1297, 10)
    assert {str(s): int((votes.split == s).sum()) for s in np.unique(votes.split)} == {"calibration": 600, "test": 697}
    test = votes.of("test")
    single = (test.probs.argmax(axis=-1) == test.labels).mean(axis=-1)
    soft = (test.probs.mean(axis=1).argmax(axis=-1) == test.labels).mean(axis=-1)
    assert (np.diff(single, axis=0) > 0).all()  # deeper exits are better
    assert soft[-1] > single.max() + 0.01  # and together they are better than any one
    assert (votes.macs > 0).all()
    assert json.dumps(votes.metadata)
    assert len(votes.metadata["classes"]) == 10
    assert DIGITS.stat().st_size < 400_000
