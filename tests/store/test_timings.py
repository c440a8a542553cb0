import json

import numpy as np
import pytest

from quorate.errors import QuorateError
from quorate.store.schema import checksum
from quorate.store.timings import Timing, best_fit, read_timings, this_machine, update_timings, write_timings

ONE = Timing("torch", "cpu", 2, {1: [[1.5, 2.0]], 32: [[0.5, 0.75]]}, this_machine(), {"torch": "2"}, {"rounds": 3})


def rewritten(path, **changes):
    document = json.loads(path.read_text()) | changes
    body = {name: value for name, value in document.items() if name not in ("schema", "version", "sha256")}
    path.write_text(json.dumps({**document, "sha256": checksum(body)}))


def measured(**changes):
    return [{"backend": "torch", "device": "cpu", "threads": 1, "milliseconds": {"1": [[1, 2]]}} | changes]


def test_measurements_come_back_as_they_were(tmp_path):
    write_timings(tmp_path, [ONE])
    for place in (tmp_path, tmp_path / "costs.json"):
        (found,) = read_timings(place, (1, 2))
        assert found.key == ONE.key
        assert (found.versions, found.about) == (ONE.versions, ONE.about)
        for size, table in ONE.milliseconds.items():
            np.testing.assert_array_equal(found.milliseconds[size], table)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"measured": measured(milliseconds={"1": [[1, -2]]})}, "milliseconds at batch size 1 must be finite and not"),
        ({"measured": measured(milliseconds={"1": [[1, "x"]]})}, "could not convert"),
        ({"measured": measured(milliseconds={"0": [[1, 2]]})}, "batch sizes of at least 1, got 0"),
        ({"measured": measured(milliseconds={"one": [[1, 2]]})}, "batch sizes of at least 1, got 'one'"),
        ({"measured": measured(milliseconds={})}, "at least one batch size"),
        ({"measured": measured(milliseconds={"1": [1, 2]})}, r"a table \[exits, learners\]"),
        ({"measured": measured(milliseconds={"1": [[1, 2]], "2": [[1]]})}, "of the same exits and learners"),
        ({"measured": measured(milliseconds={"1": [[1, 2, 3]]})}, r"was measured for \[1, 3\] branches, the committee"),
        ({"measured": measured(milliseconds=[1])}, "does not describe measured costs"),
        ({"measured": measured(threads=0)}, "threads of a measurement must be at least 1"),
        ({"measured": measured(backend=3)}, "backend of a measurement must be a name"),
        ({"measured": measured(hardware=3)}, "hardware of a measurement must be a table"),
        ({"measured": measured(surplus=3)}, "does not describe measured costs"),
        ({"measured": 3}, "does not describe measured costs"),
        ({"version": 9}, "reads up to 1: update quorate"),
        ({"schema": "app"}, "not of the schema quorate.costs"),
    ],
)
def test_what_is_no_measurement_is_refused_in_one_line(tmp_path, changes, said):
    path = write_timings(tmp_path, [ONE])
    rewritten(path, **changes)
    with pytest.raises(QuorateError, match=said) as caught:
        read_timings(tmp_path, (1, 2))
    assert "\n" not in str(caught.value)


def test_a_changed_or_truncated_file_is_refused(tmp_path):
    path = write_timings(tmp_path, [ONE])
    whole = path.read_text()
    for damaged in (whole.replace("0.75", "0.05"), whole[:-20], ""):
        path.write_text(damaged)
        with pytest.raises(QuorateError, match="costs.json"):
            read_timings(tmp_path, (1, 2))


def test_new_measurements_replace_those_of_the_same_circumstances(tmp_path):
    other = Timing("onnxruntime", "cpu", 2, {1: [[3, 4]]}, this_machine())
    elsewhere = Timing("torch", "cpu", 2, {1: [[7, 8]]}, {"machine": "board"})
    for one in (ONE, other, elsewhere, Timing("torch", "cpu", 2, {1: [[9, 9]]}, this_machine())):
        update_timings(tmp_path, [one], (1, 2))
    assert [one.milliseconds[1].tolist() for one in read_timings(tmp_path)] == [[[9, 9]], [[7, 8]], [[3, 4]]]


def test_the_measurement_that_fits_best_is_of_this_machine_and_of_as_many_threads():
    here = this_machine()
    known = [
        Timing("torch", "cpu", 1, {1: [[1]]}, {"machine": "board"}),
        Timing("torch", "cpu", 2, {1: [[2]]}, here),
        Timing("torch", "cpu", 1, {1: [[3]]}, here),
        Timing("torch", "cuda", 1, {1: [[4]]}, here),
    ]
    assert best_fit(known, "torch", "cpu", 1) is known[2]
    assert best_fit(known, "torch", "cpu", 2) is known[1]
    assert best_fit(known, "torch", "cuda", 8) is known[3]
    assert best_fit(known[:1], "torch", "cpu", 2) is known[0]
    assert best_fit(known, "onnxruntime", "cpu", 1) is None
