"""Room for images, the root of data sets, the registry and the digits that come with the package."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from tests.by_definition import data_splits as slow

from quorate.data import load
from quorate.data.digits import load_digits
from quorate.data.files import default_root, room, taken
from quorate.data.registry import REGISTRY


def test_what_does_not_fit_memory_becomes_a_map_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_DATA", str(tmp_path / "deep" / "er"))
    small, large = room((4, 2, 2, 1), limit=16), room((5, 2, 2, 1), limit=16)
    assert not isinstance(small, np.memmap)
    assert isinstance(large, np.memmap)
    large[:] = np.arange(5, dtype=np.uint8)[:, None, None, None]
    assert large.sum() == 4 * 10
    assert not list((tmp_path / "deep" / "er").iterdir())
    few = taken(large, np.array([4, 0, 2]), limit=4)
    assert isinstance(few, np.memmap)
    assert few[:, 0, 0, 0].tolist() == [4, 0, 2]


def test_taking_goes_piece_by_piece_to_the_same_images() -> None:
    images = np.random.default_rng(0).integers(0, 256, (300, 300, 300, 1), np.uint8)  # 186 images a piece
    positions = np.random.default_rng(1).permutation(300)
    assert (taken(images, positions) == images[positions]).all()


def test_the_root_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUORATE_DATA", str(tmp_path))
    assert default_root() == tmp_path
    monkeypatch.delenv("QUORATE_DATA")
    assert default_root() == Path.home() / ".cache" / "quorate"


def test_the_digits_are_those_of_the_uci_repository_and_the_test_part_a_seeded_fifth() -> None:
    # scikit-learn ships the same file of the same repository, packed by other people.
    theirs = pytest.importorskip("sklearn.datasets").load_digits()
    images = np.round(theirs.images * 255 / 16).astype(np.uint8)[..., None]
    apart = np.array(slow.held_out(theirs.target.tolist(), Fraction(1, 5), (0,)))
    data = load_digits()
    assert (data.train_images == images[~apart]).all()
    assert (data.test_images == images[apart]).all()
    assert (data.train_labels == theirs.target[~apart]).all()
    assert (data.test_labels == theirs.target[apart]).all()
    assert not data.mirror


@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"digits"}))
def test_every_name_says_how_to_get_it(name: str, tmp_path: Path) -> None:
    from quorate.errors import QuorateError

    with pytest.raises(QuorateError, match=f"{name} is not in .*: there is no folder .* `quorate data fetch {name} "):
        load(name, root=tmp_path)


@pytest.mark.parametrize("spec", ["nope", "", "folder:", "arrays:", "CIFAR10"])
def test_unknown_names_are_told_with_the_known_ones(spec: str) -> None:
    with pytest.raises(ValueError, match=r"data must be one of digits, mnist, .*folder:PATH or arrays:FILE, got"):
        load(spec)
