"""CIFAR in both versions, on generated files of a few images, and the words for what is wrong with files."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from quorate.data import cifar
from quorate.data.cifar import load_cifar10, load_cifar100
from quorate.errors import QuorateError

EACH, TEST = 12, 7
Arrays = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same formats with a dozen images a file."""
    for kind in ("_CIFAR10", "_CIFAR100"):
        monkeypatch.setattr(cifar, kind, getattr(cifar, kind)._replace(each=EACH, test=TEST))


def batch(seed: int, count: int, classes: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 3, 32, 32), np.uint8), rng.integers(0, classes, count, np.uint8)


def cifar10(root: Path, pickled: bool) -> list[Arrays]:
    folder = root / ("cifar-10-batches-py" if pickled else "cifar-10-batches-bin")
    folder.mkdir(parents=True)
    batches = [batch(i, EACH if i < 5 else TEST, 10) for i in range(6)]
    for i, (images, labels) in enumerate(batches):
        name = f"data_batch_{i + 1}" if i < 5 else "test_batch"
        if pickled:
            value = {b"data": images.reshape(len(images), -1), b"labels": labels.tolist(), b"batch_label": b"x"}
            (folder / name).write_bytes(pickle.dumps(value, protocol=2))
        else:
            rows = np.concatenate([labels[:, None], images.reshape(len(images), -1)], 1)
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
    names = [f"class {c}" for c in range(10)]
    if pickled:
        (folder / "batches.meta").write_bytes(pickle.dumps({b"label_names": [n.encode() for n in names]}, protocol=2))
    else:
        (folder / "batches.meta.txt").write_text("\n".join([*names, "", ""]))
    return batches


def cifar100(root: Path, pickled: bool) -> list[Arrays]:
    folder = root / ("cifar-100-python" if pickled else "cifar-100-binary")
    folder.mkdir(parents=True)
    batches = [batch(8, EACH, 100), batch(9, TEST, 100)]
    for name, (images, labels) in zip(("train", "test"), batches, strict=True):
        flat, coarse = images.reshape(len(images), -1), labels // 5
        if pickled:
            value = {"data": flat, "fine_labels": labels.tolist(), "coarse_labels": coarse.tolist()}
            (folder / name).write_bytes(pickle.dumps(value, protocol=2))
        else:
            (folder / f"{name}.bin").write_bytes(np.concatenate([coarse[:, None], labels[:, None], flat], 1).tobytes())
    names = [f"class {c}" for c in range(100)]
    if pickled:
        (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": names}, protocol=2))
    else:
        (folder / "fine_label_names.txt").write_text("\n".join(names))
    return batches


@pytest.mark.parametrize("pickled", [False, True])
def test_cifar10_is_what_was_written(tmp_path: Path, pickled: bool) -> None:
    batches = cifar10(tmp_path, pickled)
    data = load_cifar10(tmp_path, verify=False)
    images = np.concatenate([images for images, _ in batches[:5]])
    assert (data.train_images == images.transpose(0, 2, 3, 1)).all()
    assert data.train_labels.tolist() == np.concatenate([labels for _, labels in batches[:5]]).tolist()
    assert (data.test_images == batches[5][0].transpose(0, 2, 3, 1)).all()
    assert data.test_labels.tolist() == batches[5][1].tolist()
    assert data.classes == tuple(f"class {c}" for c in range(10))
    assert data.mirror
    assert data.train_images.flags.c_contiguous
    assert data.test_images.flags.c_contiguous


@pytest.mark.parametrize("pickled", [False, True])
def test_cifar100_has_its_fine_labels(tmp_path: Path, pickled: bool) -> None:
    (images, labels), (_, test_labels) = cifar100(tmp_path, pickled)
    data = load_cifar100(tmp_path, verify=False)
    assert (data.train_images == images.transpose(0, 2, 3, 1)).all()
    assert data.train_labels.tolist() == labels.tolist()
    assert data.test_labels.tolist() == test_labels.tolist()
    assert data.classes[99] == "class 99"


def test_an_incomplete_first_version_makes_way_for_the_other(tmp_path: Path) -> None:
    cifar10(tmp_path, pickled=True)
    (tmp_path / "cifar-10-batches-bin").mkdir()
    assert "batches-py" in load_cifar10(tmp_path, verify=False).source


def test_a_missing_file_is_named_with_the_place_and_the_command(tmp_path: Path) -> None:
    cifar10(tmp_path, pickled=False)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin").unlink()
    with pytest.raises(QuorateError) as caught:
        load_cifar10(tmp_path)
    words = str(caught.value)
    assert "the folder cifar-10-batches-bin lacks data_batch_3.bin;" in words
    assert "no folder cifar-10-batches-py" in words
    assert f"quorate data fetch cifar10 --root {tmp_path}" in words


def test_a_file_that_is_not_the_official_one_is_told(tmp_path: Path) -> None:
    cifar10(tmp_path, pickled=False)
    with pytest.raises(QuorateError, match=r"data_batch_1\.bin: the md5 .* 5dd7e06a.*--no-verify"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize(
    ("folder", "file", "damage", "words"),
    [
        ("cifar-10-batches-bin", "data_batch_2.bin", b"short", "12 records of 3073 bytes, 36876 in all, has 5"),
        ("cifar-10-batches-bin", "test_batch.bin", b"\x0b" * 7 * 3073, r"labels must lie in 0\.\.9, got 11\.\.11"),
        ("cifar-10-batches-bin", "batches.meta.txt", b"cat\ndog", "must name 10 classes"),
        ("cifar-10-batches-py", "data_batch_1", b"junk", "not a pickle of arrays"),
        ("cifar-10-batches-py", "data_batch_1", pickle.dumps({"labels": []}), "'data' must be uint8"),
        (
            "cifar-10-batches-py",
            "test_batch",
            pickle.dumps({"data": np.zeros((TEST, 3072), np.uint8), "labels": [1.5] * TEST}),
            "'labels' must be a list of 7 integers",
        ),
        ("cifar-10-batches-py", "batches.meta", pickle.dumps({}), "must name 10 classes"),
    ],
)
def test_damaged_files_are_told(tmp_path: Path, folder: str, file: str, damage: bytes, words: str) -> None:
    cifar10(tmp_path, pickled=folder.endswith("py"))
    (tmp_path / folder / file).write_bytes(damage)
    with pytest.raises(QuorateError, match=words) as caught:
        load_cifar10(tmp_path, verify=False)
    assert file in str(caught.value)


def test_every_listed_file_has_a_checksum_but_the_lists_of_names() -> None:
    for layout in (cifar._CIFAR10.binary, cifar._CIFAR10.pickled, cifar._CIFAR100.binary, cifar._CIFAR100.pickled):
        without = set(layout.files) - set(cifar._MD5[layout.folder])
        assert all(name.endswith(".txt") for name in without)
        assert all(len(md5) == len(hashlib.md5(b"").hexdigest()) for md5 in cifar._MD5[layout.folder].values())
