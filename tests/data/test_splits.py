"""Splits: the slow reading, and what a split must never do."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.by_definition import data_splits as slow

from quorate.data.splits import Splits, digest, held_out, split

LABELS = st.lists(st.integers(0, 5), min_size=1, max_size=120)
PERCENT = st.integers(0, 99)
SEEDS = st.integers(0, 2**63)


@given(LABELS, PERCENT, SEEDS, st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_held_out_equals_the_slow_reading(labels: list[int], percent: int, seed: int, stream: int) -> None:
    got = held_out(labels, percent / 100, (seed, stream))
    assert got.tolist() == slow.held_out(labels, Fraction(percent, 100), (seed, stream))


@given(LABELS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_splits_are_disjoint_cover_everything_and_repeat(labels: list[int], seed: int) -> None:
    parts = split(labels, seed)
    assert sorted([*parts.train, *parts.calibration]) == list(range(len(labels)))
    assert sorted([*parts.search_train, *parts.search_validation]) == parts.train.tolist()
    assert all((np.diff(part) > 0).all() and part.dtype == np.int64 for part in parts)
    assert split(labels, seed).digests() == parts.digests()


def test_every_class_gives_its_share() -> None:
    labels = np.repeat(np.arange(10), 5000)
    parts = split(np.random.default_rng(0).permutation(labels), seed=3)
    shuffled = np.random.default_rng(0).permutation(labels)
    for part, each in zip(parts, (4500, 500, 3150, 1350), strict=True):
        assert np.bincount(shuffled[part]).tolist() == [each] * 10


def test_another_seed_gives_another_split() -> None:
    labels = np.repeat(np.arange(10), 100)
    one, other = split(labels, 0), split(labels, 1)
    assert all(digest(a) != digest(b) for a, b in zip(one, other, strict=True))
    shared = np.intersect1d(one.calibration, other.calibration)
    assert len(shared) < 30  # 10 of 100 by chance


def test_the_two_draws_of_one_seed_are_independent() -> None:
    # Were both drawn with the same keys, the search's validation part would hold the smallest keys of what was left.
    labels = np.zeros(10_000, np.int64)
    parts = split(labels, 0)
    keys = np.random.PCG64([0, 0]).random_raw(10_000)
    ranks = np.argsort(np.argsort(keys[parts.train]))
    mean = ranks[np.isin(parts.train, parts.search_validation)].mean()
    assert abs(mean - 4500) < 5 * 2600 / np.sqrt(2700)  # a uniform mean of ranks 0 .. 8999


def test_a_class_never_gives_its_last_sample() -> None:
    assert not held_out([0, 1, 2], 0.9, 0).any()
    parts = split([0] * 20 + [1], 0)
    assert 20 in parts.search_train


def test_the_digest_is_sha256_of_little_endian_integers() -> None:
    import hashlib

    raw = b"".join(int(i).to_bytes(8, "little") for i in (5, 7, 300))
    assert digest([5, 7, 300]) == hashlib.sha256(raw).hexdigest()


def test_a_split_is_pinned() -> None:
    # The keys are PCG64's raw stream, which numpy promises to keep: this value may only change with the method.
    parts = split([0, 1] * 50, seed=0)
    keys = np.random.PCG64([0, 0]).random_raw(100)
    even, odd = np.arange(0, 100, 2), np.arange(1, 100, 2)
    smallest = [rows[np.argsort(keys[rows])[:5]] for rows in (even, odd)]
    assert sorted(np.concatenate(smallest).tolist()) == parts.calibration.tolist()


@pytest.mark.parametrize(
    ("labels", "seed", "share", "words"),
    [
        ([], 0, 0.1, "one integer a sample"),
        ([[1]], 0, 0.1, "one integer a sample"),
        ([0.5], 0, 0.1, "one integer a sample"),
        ([0, 1], -1, 0.1, "non-negative"),
        ([0, 1], 0, 1.0, r"\[0, 1\), got 1.0"),
    ],
)
def test_mistakes_are_told(labels: list[int], seed: int, share: float, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        split(labels, seed, calibration=share)


def test_splits_have_the_names_of_the_method() -> None:
    assert Splits._fields == ("train", "calibration", "search_train", "search_validation")
