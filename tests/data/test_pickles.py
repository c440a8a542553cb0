"""Pickles of arrays are read, whatever wrote them; anything else is refused and never run."""

import datetime
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.data.pickles import read_pickle
from quorate.errors import QuorateError

# What Python 2 writes for {"data": uint8 [[1, 255], [3, 4]], "labels": [6, 9]} in protocol 2, opcode by opcode.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87"
    b"Rq\x05(K\x01K\x02K\x02\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xff"
    b"J\xff\xff\xff\xffK\x00tb\x89U\x04\x01\xff\x03\x04tbU\x06labelsq\x08]q\x09(K\x06K\x09eu."
)


class Bomb:
    """A pickle that makes a folder when it is run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def write(folder: Path, value: object, protocol: int = 2) -> Path:
    (folder / "batch").write_bytes(pickle.dumps(value, protocol=protocol))
    return folder / "batch"


@pytest.mark.parametrize("protocol", range(6))
def test_arrays_lists_and_numbers_of_every_protocol(tmp_path: Path, protocol: int) -> None:
    data = np.arange(24, dtype=np.uint8).reshape(4, 6)
    fortran = np.asfortranarray(np.arange(6, dtype=">f4").reshape(2, 3))
    value = {b"data": data, "f": fortran, "labels": [1, np.int64(2), True], "none": None, "deep": {"a": (b"x", "y")}}
    got = read_pickle(write(tmp_path, value, protocol))
    assert (got["data"] == data).all()
    assert got["data"].dtype == np.uint8
    assert (got["f"] == fortran).all()
    assert got["f"].dtype == np.dtype(">f4")
    assert got["labels"] == [1, 2, True]
    assert got["deep"] == {"a": (b"x", "y")}


def test_what_python_2_wrote(tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(PYTHON_2)
    got = read_pickle(tmp_path / "batch")
    assert got["data"].tolist() == [[1, 255], [3, 4]]
    assert got["labels"] == [6, 9]


@pytest.mark.parametrize("protocol", range(6))
def test_a_malicious_pickle_is_refused_and_never_run(tmp_path: Path, protocol: int) -> None:
    path = write(tmp_path, {"data": Bomb(tmp_path / "made")}, protocol)
    with pytest.raises(QuorateError, match=r"asks for \w+\.mkdir, which is no array"):
        read_pickle(path)
    assert not (tmp_path / "made").exists()
    pickle.loads(path.read_bytes())  # noqa: S301 (the bomb does go off when it is run)
    assert (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "asked",
    [
        b"cbuiltins\neval\n",
        b"cos\nsystem\n",
        b"cnumpy\nload\n",
        b"cnumpy.core.multiarray\nfromfile\n",
        b"cnumpy\nndarray.tofile\n",
        b"c_codecs\ndecode\n",
        b"cquorate.data.pickles\nread_pickle\n",
    ],
)
def test_names_near_the_allowed_ones_are_refused(tmp_path: Path, asked: bytes) -> None:
    (tmp_path / "batch").write_bytes(b"\x80\x02" + asked + b".")
    with pytest.raises(QuorateError, match="which is no array"):
        read_pickle(tmp_path / "batch")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"data": np.array([{}], dtype=object)}, "no plain number"),
        ({"data": np.zeros(2, "M8[s]")}, "no plain number"),
        ({"data": datetime.date(2000, 1, 1)}, "asks for datetime.date"),
        ([1, 2], "holds a list"),
    ],
)
def test_what_is_no_dictionary_of_arrays_is_refused(tmp_path: Path, value: object, words: str) -> None:
    with pytest.raises(QuorateError, match=words):
        read_pickle(write(tmp_path, value))


def test_an_array_must_have_the_bytes_its_shape_says(tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(PYTHON_2.replace(b"K\x01K\x02K\x02\x86", b"K\x01K\x02K\x64\x86"))
    with pytest.raises(QuorateError, match=r"an array \[2, 100\] of 4 bytes"):
        read_pickle(tmp_path / "batch")


@pytest.mark.parametrize("length", [0, 1, 40, len(PYTHON_2) - 1])
def test_a_truncated_pickle_is_told(tmp_path: Path, length: int) -> None:
    (tmp_path / "batch").write_bytes(PYTHON_2[:length])
    with pytest.raises(QuorateError, match="not a pickle of arrays"):
        read_pickle(tmp_path / "batch")


@given(st.lists(st.tuples(st.integers(0, len(PYTHON_2) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_changed_bytes_are_read_or_refused_never_more(changes: list[tuple[int, int]]) -> None:
    import tempfile

    changed = bytearray(PYTHON_2)
    for place, byte in changes:
        changed[place] = byte
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "batch").write_bytes(changed)
        try:
            assert isinstance(read_pickle(Path(folder) / "batch"), dict)
        except QuorateError as error:
            assert "batch" in str(error)  # noqa: PT017
