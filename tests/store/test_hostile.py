"""Files that are cut off, foreign, or made to do harm: one line of one error, and nothing executed."""

import contextlib
import io
import json
import os
import pickle
import random
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save

from quorate.errors import QuorateError
from quorate.squad.votes import Votes
from quorate.store import read_votes, write_votes

E, K, N, C = 2, 2, 3, 2
ARRAYS = {
    "probs": np.full((E, K, N, C), 0.5),
    "labels": np.zeros(N, dtype=np.int64),
    "macs": np.ones((E, K)),
}
HEADER = {"schema": "quorate.votes", "version": 1, "chained": True, "metadata": {}}


def refused(path, message=None):
    """The one line with which ``path`` is refused."""
    with pytest.raises(QuorateError, match=message) as caught:
        read_votes(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert line.isprintable()
    assert len(line) < 600 + len(str(path))
    return line


@contextlib.contextmanager
def little_memory():
    """What is refused must not have been allocated."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def ours(tmp_path):
    path = tmp_path / "ours.safetensors"
    split = np.array(["a", "b", "a"])
    write_votes(Votes(**ARRAYS, split=split, milliseconds={8: np.ones((E, K))}, metadata={"source": "here"}), path)
    return path


def theirs(tmp_path, **changes):
    path = tmp_path / "theirs.npz"
    np.savez(path, **{name: a for name, a in {**ARRAYS, **changes}.items() if a is not None})
    return path


def tensors(tmp_path, header=HEADER, **changes):
    """A safetensors file with whatever header and tensors."""
    arrays = {"log_probs": np.log(ARRAYS["probs"]), "labels": ARRAYS["labels"], "macs": ARRAYS["macs"], **changes}
    text = header if isinstance(header, str) else json.dumps(header)
    path = tmp_path / "made.safetensors"
    path.write_bytes(save({n: a for n, a in arrays.items() if a is not None}, {"quorate": text}))
    return path


def raw_safetensors(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def raw_npz(path, npy, name="probs", **write):
    """An npz whose first entry is ``npy`` to the byte."""
    with zipfile.ZipFile(path, "w", **write) as archive:
        archive.writestr(f"{name}.npy", npy)
        for other in ("labels", "macs"):
            buffer = io.BytesIO()
            np.save(buffer, ARRAYS[other])
            archive.writestr(f"{other}.npy", buffer.getvalue())
    return path


def npy(header, data=b"", version=1):
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def test_the_plain_ones_are_read(tmp_path):
    for path in (ours(tmp_path), theirs(tmp_path), tensors(tmp_path)):
        assert read_votes(path).probs.shape == (E, K, N, C)


@pytest.mark.parametrize("make", [ours, theirs])
def test_cut_off_anywhere(tmp_path, make):
    whole = make(tmp_path).read_bytes()
    path = tmp_path / "cut"
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        refused(path)


@pytest.mark.parametrize("make", [ours, theirs])
def test_any_damage_is_refused_or_harmless(tmp_path, make):
    whole, rng, path = make(tmp_path).read_bytes(), random.Random(0), tmp_path / "damaged"
    for _ in range(1_500):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            i, j = rng.randrange(len(data)), rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    data[i] = rng.randrange(256)
                case 1:
                    data[i : i + 8] = data[j : j + 8]
                case 2:
                    data[i:i] = rng.randbytes(rng.randint(1, 16))
                case _:
                    data[i] ^= 0x80
        path.write_bytes(data)
        with contextlib.suppress(QuorateError):
            assert np.isfinite(read_votes(path).probs).all()


def test_random_bytes(tmp_path):
    rng, path = random.Random(1), tmp_path / "noise"
    for start in (b"", b"PK\x03\x04", b"PK\x05\x06", b"\x40" + bytes(7), b"\x80\x04"):
        for _ in range(200):
            path.write_bytes(start + rng.randbytes(rng.randrange(200)))
            refused(path)


def test_what_is_no_file(tmp_path):
    refused(tmp_path, "is not a file: give the path of a votes file")
    refused(tmp_path / "missing", "cannot be read: No such file or directory; check the path")
    (tmp_path / "empty").touch()
    refused(tmp_path / "empty", "is empty")
    (tmp_path / "seven").write_bytes(b"1234567")
    refused(tmp_path / "seven", "has only 7 bytes")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is not a file")


def test_an_unreadable_file(tmp_path, monkeypatch):
    path = ours(tmp_path)

    def denied(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    refused(path, "cannot be read: Permission denied; check the path, its permissions")


def test_no_memory(tmp_path, monkeypatch):
    def full(*_):
        raise MemoryError

    path = ours(tmp_path)
    monkeypatch.setattr("quorate.store.votes.checked", full)
    refused(path, "needs more memory than there is")


class Trap:
    """Unpickled, it would leave a mark."""

    def __reduce__(self):
        return os.mkdir, (os.environ["TRAP"],)


def test_a_pickle_is_never_loaded(tmp_path, monkeypatch):
    mark = tmp_path / "executed"
    monkeypatch.setenv("TRAP", str(mark))
    trap = np.array([Trap()], dtype=object)
    for name in ("probs", "labels", "split", "chained"):
        refused(theirs(tmp_path, **{name: trap}), f"{name} holds pickled objects, which are never loaded")
    (tmp_path / "votes.pkl").write_bytes(pickle.dumps(Trap()))
    refused(tmp_path / "votes.pkl", "cut off or of another kind")
    raw_npz(tmp_path / "votes.npz", pickle.dumps(Trap()))
    refused(tmp_path / "votes.npz", "probs is not a numpy array")
    assert not mark.exists()


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f8', 'fortran_order': False, 'shape': (__import__('os').getpid(),), }",
        "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f8', 'shape': (1,), }",
        "(" * 5_000,
        "-" * 9_000 + "1",
        "",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1" * 9_000,
    ],
)
def test_headers_are_matched_not_evaluated(tmp_path, header):
    refused(raw_npz(tmp_path / "votes.npz", npy(header, bytes(8))), "probs has a header that is not understood")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000, 1000000), }"),
            "declares 10{18} numbers of 8",
        ),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", bytes(8)), "declares 2 numbers of 8 bytes"),
        (npy("{'descr': '<U90000000', 'fortran_order': False, 'shape': (9,), }"), "declares 9 numbers of 360000000"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 1, 1), }"), "absurd shape"),
        (npy("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 4_400 + ",), }"), "absurd shape"),
        (npy("{'descr': '<f9', 'fortran_order': False, 'shape': (1,), }", bytes(9)), "unknown type"),
        (npy("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", bytes(8)), "has the type complex64"),
        (npy("{'descr': '<M8', 'fortran_order': False, 'shape': (1,), }", bytes(8)), "has the type datetime64"),
        (npy(" " * 20_000), "declares a header of 20000 bytes"),
        (b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**32 - 1), "declares a header of 4294967295 bytes"),
        (b"\x93NUMPY\x01\x00\x05", "broken or encrypted zip"),
        (b"", "probs is not a numpy array"),
    ],
)
def test_declared_sizes_are_not_believed(tmp_path, entry, message):
    path = raw_npz(tmp_path / "votes.npz", entry)
    with little_memory():
        refused(path, message)


def test_a_zip_bomb_is_not_unpacked(tmp_path):
    size = 2**28
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({size},), }}"
    path = raw_npz(tmp_path / "votes.npz", npy(header) + bytes(size), compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 2**20
    with little_memory():
        refused(path, "which looks like a zip bomb")


def test_an_entry_cannot_claim_to_be_larger_than_the_file(tmp_path):
    path = theirs(tmp_path)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 20  # sizes, packed and unpacked, in the table of contents
    data[at : at + 8] = struct.pack("<II", 2**31, 2**31)
    path.write_bytes(data)
    refused(path, "zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unusual_compression(tmp_path, method):
    refused(raw_npz(tmp_path / "votes.npz", b"x" * 100, compression=method), "compressed in an unusual way")


def test_an_encrypted_zip(tmp_path):
    path = theirs(tmp_path)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    refused(path, "broken or encrypted zip file")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"probs": None}, "must hold one of probs, log_probs, logits, got none"),
        ({"logits": ARRAYS["probs"]}, "got probs and logits: keep one"),
        ({"labels": None}, "lacks labels: add it"),
        ({"macs": None}, "lacks macs: add it"),
        ({"presnt": np.ones(1)}, "holds 'presnt', which is none of"),
        ({"\x1b[31m" + "x" * 200: np.ones(1)}, r"holds '\\x1b\[31mxxx"),
        ({"probs": np.ones((E, K, N, C), dtype=int)}, "probs must hold floating-point numbers, got the type int64"),
        ({"probs": np.full((E, K, N, C), np.nan)}, r"got \[nan, nan\] at exit 0, learner 0, sample 0"),
        ({"probs": np.full((E, K, N, C), [1.5, -0.5])}, r"got \[1.5, -0.5\]"),
        ({"probs": None, "log_probs": np.ones((E, K, N, C))}, "logarithms of probabilities that sum to 1"),
        ({"probs": None, "log_probs": np.full((E, K, N, C), 1e308)}, "logarithms of probabilities"),
        ({"probs": None, "logits": np.full((E, K, N, C), np.inf)}, "finite numbers"),
        ({"probs": None, "logits": np.full((E, K, N, C), -np.inf)}, "finite numbers"),
        ({"labels": np.array([0, 1, 2])}, r"labels must lie in 0\.\.1, got 2 at sample 2"),
        ({"labels": np.array([0, 1, -1])}, "got -1 at sample 2"),
        ({"macs": np.full((E, K), np.inf)}, "macs must be finite"),
        ({"macs": np.ones((K, E + 1))}, r"macs must have the shape \(2, 2\)"),
        ({"split": np.arange(N)}, "split must hold text"),
        ({"split": np.array([b"\xff"] * N)}, "split holds text that is not UTF-8"),
        ({"chained": np.array([True, False])}, "chained must be one boolean"),
        ({"chained": np.array(1)}, "chained must be one boolean"),
    ],
)
def test_arrays_that_are_no_votes(tmp_path, changes, message):
    refused(theirs(tmp_path, **changes), message)


def test_text_that_is_no_text(tmp_path):
    header = "{'descr': '<U1', 'fortran_order': False, 'shape': (3,), }"
    path = tmp_path / "votes.npz"
    for codes in (b"\xff" * 12, struct.pack("<3I", 0xD800, 0xD800, 0xD800), struct.pack("<3I", 10, 10, 10)):
        raw_npz(path, npy(header, codes), name="split")
        with zipfile.ZipFile(path, "a") as archive:
            buffer = io.BytesIO()
            np.save(buffer, ARRAYS["probs"])
            archive.writestr("probs.npy", buffer.getvalue())
        refused(path)


@pytest.mark.parametrize("length", [2**63, 2**40, 10**9, 17 * 2**20])
def test_absurd_header_sizes(tmp_path, length):
    refused(raw_safetensors(tmp_path / "votes", b"{}", length=length), f"declares a header of {length} bytes")


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"{}",
        b"null",
        b"\xff\xfe",
        {"log_probs": {"dtype": "F16", "shape": [2**40, 2**40], "data_offsets": [0, 8]}},
        {"log_probs": {"dtype": "F16", "shape": [-1], "data_offsets": [0, 8]}},
        {"log_probs": {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]}},
        {"log_probs": {"dtype": "F64", "shape": [1], "data_offsets": [0, 2**63]}},
        {"log_probs": {"dtype": "F64", "shape": [2], "data_offsets": [0, 8]}},
        {"log_probs": {"dtype": "O", "shape": [1], "data_offsets": [0, 8]}},
        {"log_probs": 3},
        {"__metadata__": {"quorate": 3}},
    ],
)
def test_headers_of_safetensors(tmp_path, header):
    refused(raw_safetensors(tmp_path / "votes", header, bytes(8)))


def test_types_numpy_does_not_have(tmp_path):
    header = {"log_probs": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}
    refused(raw_safetensors(tmp_path / "votes", header, bytes(8)), "log_probs has the type BF16")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("null", "not of recorded votes: make one with quorate.store.write_votes"),
        ("{", "metadata that are not JSON"),
        ("[" * 100_000, "metadata that are not JSON"),
        ('{"schema": "quorate.votes", "x": "\\ud800"}', "metadata that are not JSON"),
        ({**HEADER, "schema": "quorate.weights"}, "not of recorded votes"),
        ({**HEADER, "version": 2}, "has schema version 2, this quorate reads up to 1: update quorate"),
        ({**HEADER, "version": "1"}, "impossible schema version '1'"),
        ({**HEADER, "version": -1}, "impossible schema version -1"),
        ({**HEADER, "chained": "no"}, "chained must be one boolean, got 'no'"),
        ({**HEADER, "chained": [[[]]]}, "chained must be one boolean"),
        ({**HEADER, "chained": [1, [2]]}, "chained must be one boolean"),
        ({**HEADER, "metadata": [1]}, "not a table of names"),
    ],
)
def test_metadata_of_another_kind(tmp_path, header, message):
    refused(tensors(tmp_path, header), message)


@pytest.mark.parametrize(
    ("changes", "header", "message"),
    [
        ({"log_probs": None}, {}, "lacks log_probs"),
        ({"labels": None}, {}, "lacks labels"),
        ({"weights": np.ones(1)}, {}, "holds 'weights', which is none of"),
        ({"log_probs": np.zeros((E, K, N, C), dtype=np.int8)}, {}, "must hold floating-point numbers"),
        ({"log_probs": np.zeros((E, K, N, C))}, {}, "logarithms of probabilities that sum to 1"),
        ({"log_probs": np.zeros((E, K, N))}, {}, "dimensions"),
        ({"split": np.zeros(N, dtype=int)}, {}, "splits without names"),
        ({"split": np.full(N, 1)}, {"splits": ["a"]}, r"split must hold numbers 0\.\.0"),
        ({"split": np.zeros(N)}, {"splits": ["a"]}, "split must hold numbers"),
        ({"split": np.zeros(N, dtype=int)}, {"splits": ["\u001b[31m"]}, "printable names"),
        ({"split": np.zeros(N, dtype=int)}, {"splits": [3]}, "splits without names"),
        ({"split": np.zeros(N + 1, dtype=int)}, {"splits": ["a"]}, "split must have the shape"),
        ({"milliseconds": np.ones((1, E, K))}, {}, "lacks batch_sizes"),
        ({"milliseconds": np.ones((1, E, K)), "batch_sizes": np.ones(2, dtype=int)}, {}, "one integer for each table"),
        (
            {"milliseconds": np.ones((1, E, 9)), "batch_sizes": np.ones(1, dtype=int)},
            {},
            "milliseconds at batch size 1",
        ),
        ({"present": np.ones((E, K), dtype=bool)}, {}, "present must have the shape"),
    ],
)
def test_tensors_that_are_no_votes(tmp_path, changes, header, message):
    refused(tensors(tmp_path, {**HEADER, **header}, **changes), message)


def test_names_of_files_cannot_break_the_line(tmp_path):
    path = tmp_path / "a\nb\x1b[31m"
    path.write_bytes(b"not votes at all")
    with pytest.raises(QuorateError) as caught:
        read_votes(path)
    assert str(caught.value).isprintable()
