"""The files of a run: what is written is read, what is not right is refused in one line."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from quorate.errors import QuorateError
from quorate.squad import Rule
from quorate.store.run import (
    CommitteeRecord,
    InputSpec,
    LearnerRecord,
    held,
    read_committee,
    read_config,
    write_committee,
    write_config,
)
from quorate.store.weights import check_shapes, read_weights, write_weights

ONE = LearnerRecord("a", {"kind": "own"}, InputSpec(8, 8, 1, (0.5,), (0.5,)), "w.safetensors", {"test": [0.5]})
COMMITTEE = CommitteeRecord(Rule(), ((5.0, 6.0), (7.0, 8.0)), ("cat", "dog"), (ONE, ONE), chained=False)


def rewritten(path, **changes):
    from quorate.store.schema import checksum

    document = json.loads(path.read_text())
    document.update(changes)
    body = {name: value for name, value in document.items() if name not in ("schema", "version", "sha256")}
    path.write_text(json.dumps({**document, "sha256": checksum(body)}))


def test_a_committee_comes_back_as_it_was(tmp_path):
    write_committee(tmp_path / "c.json", COMMITTEE)
    assert read_committee(tmp_path / "c.json") == COMMITTEE


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is not JSON"),
        (b"[1]", "not of the schema quorate.committee"),
        (b'{"schema": "quorate.run"}', "not of the schema quorate.committee"),
        (b'{"schema": "quorate.committee", "version": 2}', "has schema version 2, this quorate reads up to 1"),
        (b'{"schema": "quorate.committee", "version": "x"}', "impossible schema version 'x'"),
        (b'{"schema": "quorate.committee", "version": 1}', "does not match its checksum"),
        (b"\xff\xfe", "is not JSON"),
    ],
)
def test_what_is_no_committee_is_refused(tmp_path, data, said):
    (tmp_path / "c.json").write_bytes(data)
    with pytest.raises(QuorateError, match=said):
        read_committee(tmp_path / "c.json")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"learners": []}, "a column for each of 0 learners"),
        ({"learners": [{}]}, "does not describe a committee"),
        ({"learners": 3}, "does not describe a committee"),
        ({"macs": [[1]]}, "a column for each of 2 learners"),
        ({"macs": [["x", 2]]}, "could not convert string to float"),
        ({"classes": ["cat"]}, "at least two classes"),
        ({"policy": {"name": "oracle"}}, "policy must be one of squad"),
        ({"learners": [{**vars(ONE), "input": vars(ONE.input), "weights": "../w"}] * 2}, "a file below the run"),
        ({"surplus": 1}, "does not describe a committee"),
    ],
)
def test_contradictions_are_refused_whatever_their_checksum(tmp_path, changes, said):
    write_committee(tmp_path / "c.json", COMMITTEE)
    rewritten(tmp_path / "c.json", **changes)
    with pytest.raises(QuorateError, match=said):
        read_committee(tmp_path / "c.json")


def test_one_changed_digit_is_found(tmp_path):
    write_config(tmp_path / "c.json", {"seed": 10})
    (tmp_path / "c.json").write_text((tmp_path / "c.json").read_text().replace("10", "11"))
    with pytest.raises(QuorateError, match="does not match its checksum"):
        read_config(tmp_path / "c.json")
    with pytest.raises(ValueError, match="must be what JSON can say"):
        write_config(tmp_path / "d.json", {"seed": object()})


@pytest.mark.parametrize(
    "wrong",
    [
        {"height": 0},
        {"channels": 2},
        {"std": (0.0,)},
        {"mean": (0.5, 0.5)},
        {"width": 8.0},
    ],
)
def test_inputs_that_no_image_can_have_are_refused(wrong):
    with pytest.raises(ValueError, match="of an input must be"):
        InputSpec(**{"height": 8, "width": 8, "channels": 1, "mean": (0.5,), "std": (0.5,), **wrong})


ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array(3), "b": np.array([True])}


def test_weights_come_back_in_type_and_shape(tmp_path):
    write_weights(tmp_path / "w", ARRAYS, {"epoch": 3})
    arrays, about = read_weights(tmp_path / "w")
    assert about == {"epoch": 3}
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert (arrays[name].dtype, arrays[name].shape) == (array.dtype, array.shape)
        assert (arrays[name] == array).all()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_cut_weights_are_refused(tmp_path, share):
    write_weights(tmp_path / "w", ARRAYS)
    data = (tmp_path / "w").read_bytes()
    (tmp_path / "w").write_bytes(data[: int(share * len(data))])
    with pytest.raises(QuorateError, match="w: .*(cut off|empty|only|whole)"):
        read_weights(tmp_path / "w")


def test_every_changed_byte_is_found(tmp_path):
    write_weights(tmp_path / "w", ARRAYS, {"epoch": 3})
    data = (tmp_path / "w").read_bytes()
    for at in range(len(data)):
        (tmp_path / "w").write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        with pytest.raises(QuorateError):
            read_weights(tmp_path / "w")


def test_weights_of_others_are_refused(tmp_path):
    from safetensors.numpy import save_file

    save_file({"a": np.ones(2)}, tmp_path / "w")
    with pytest.raises(QuorateError, match="not weights of quorate"):
        read_weights(tmp_path / "w")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"a": (2, 3), "n": ()}, "holds 'b', which the network has not"),
        ({"a": (2, 3), "n": (), "b": (1,), "c": ()}, "lacks 'c'"),
        ({"a": (3, 2), "n": (), "b": (1,)}, r"a must have the shape \(3, 2\), got \(2, 3\)"),
    ],
)
def test_shapes_are_checked(tmp_path, wanted, said):
    with pytest.raises(QuorateError, match=said):
        check_shapes(tmp_path / "w", ARRAYS, wanted)


def test_a_folder_has_one_writer(tmp_path):
    def other():
        with held(tmp_path / "run"):
            return "held"

    with ThreadPoolExecutor(1) as elsewhere:
        with held(tmp_path / "run"):
            with pytest.raises(QuorateError, match="another process is writing"):
                elsewhere.submit(other).result()
            assert other() == "held"  # what the holder calls may hold it again, and gives nothing back
            with pytest.raises(QuorateError, match="another process is writing"):
                elsewhere.submit(other).result()
        assert elsewhere.submit(other).result() == "held"
