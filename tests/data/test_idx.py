"""MNIST and Fashion-MNIST on generated idx files, compressed or not."""

import gzip
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from quorate.data.idx import load_fashion_mnist, load_mnist, read_idx
from quorate.errors import QuorateError


def idx(values: npt.NDArray[np.uint8]) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def write(folder: Path, compressed: bool) -> dict[str, npt.NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    folder.mkdir(parents=True)
    files = {}
    for part, count in (("train", 20), ("t10k", 10)):
        files[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (count, 28, 28), np.uint8)
        files[f"{part}-labels-idx1-ubyte"] = rng.integers(0, 10, count, np.uint8)
    for name, values in files.items():
        blob = idx(values)
        (folder / (f"{name}.gz" if compressed else name)).write_bytes(gzip.compress(blob) if compressed else blob)
    return files


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("folder", ["fashion-mnist", "FashionMNIST/raw"])
def test_fashion_mnist_is_what_was_written(tmp_path: Path, folder: str, compressed: bool) -> None:
    files = write(tmp_path / folder, compressed)
    data = load_fashion_mnist(tmp_path)
    assert (data.train_images[..., 0] == files["train-images-idx3-ubyte"]).all()
    assert data.test_labels.tolist() == files["t10k-labels-idx1-ubyte"].tolist()
    assert data.shape == (28, 28, 1)
    assert data.train_images.flags.writeable  # torch warns of arrays that are not
    assert data.classes[9] == "Ankle boot"
    assert data.mirror


def test_digits_are_not_mirrored(tmp_path: Path) -> None:
    write(tmp_path / "mnist", compressed=True)
    assert not load_mnist(tmp_path).mirror


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "mnist", compressed=True)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(QuorateError, match=r"the folder mnist lacks t10k-labels-idx1-ubyte;.*data fetch mnist"):
        load_mnist(tmp_path)


def test_parts_that_do_not_belong_together_are_told(tmp_path: Path) -> None:
    write(tmp_path / "mnist", compressed=False)
    (tmp_path / "mnist" / "train-labels-idx1-ubyte").write_bytes(idx(np.zeros(3, np.uint8)))
    with pytest.raises(QuorateError, match="train labels must be 20 integers"):
        load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("name", "blob", "words"),
    [
        ("a", b"", "begins with 00 00 08"),
        ("a", b"\0\0\x0d\1\0\0\0\1\0\0\0\0", "this one with 00 00 0d"),
        ("a", b"\0\0\x08\3\0\0", "ends inside its header"),
        ("a", idx(np.zeros((4, 4), np.uint8))[:-1], r"promises \[4, 4\] bytes, 15 follow"),
        ("a", b"\0\0\x08\2" + b"\xff" * 8, "promises"),
        ("a.gz", gzip.compress(idx(np.zeros(900, np.uint8)))[:-9], "cut short"),
        ("a.gz", b"not gzip", "damaged or cut short"),
        ("a.gz", gzip.compress(b"x" * 99, mtime=0)[:12] + b"\xff" * 30, "damaged or cut short"),
    ],
)
def test_damaged_files_are_told(tmp_path: Path, name: str, blob: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(blob)
    with pytest.raises(QuorateError, match=words):
        read_idx(tmp_path / name)
