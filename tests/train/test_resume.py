"""Killed at any moment, resumed to the same bits."""

import errno
import json
import multiprocessing as mp
import os
import random
import signal

import numpy as np
import pytest
import torch
from tests.train import killing
from tests.train.cases import QUICK, darts, linear, same, state_of, toy

from quorate.errors import QuorateError
from quorate.store.history import append_history, read_history
from quorate.store.weights import read_weights
from quorate.train import fit
from quorate.train.checkpoint import load_checkpoint, save_checkpoint


class StoppedError(Exception):
    pass


def stop_after(steps):
    """Something that stands for a process that ends between two checkpoints."""
    left = [steps]

    def save(folder, step, arrays, about):
        left[0] -= 1
        save_checkpoint(folder, step, arrays, about)
        if not left[0]:
            raise StoppedError

    return save


def test_killed_at_random_moments_it_ends_in_the_same_bits(tmp_path):
    wanted = killing.train(tmp_path / "whole")
    server = mp.get_context("forkserver")
    server.set_forkserver_preload(["tests.train.killing"])
    chance, kills = random.Random(), 0
    while kills < 8:
        begun = server.Event()
        process = server.Process(target=killing.train, args=(tmp_path / "killed", begun))
        process.start()
        begun.wait(20)
        process.join(chance.uniform(0.02, 0.3))
        if process.exitcode is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    got = killing.train(tmp_path / "killed")
    assert kills >= 2
    assert (tmp_path / "killed/weights.safetensors").read_bytes()
    one, other = (read_weights(tmp_path / run / "weights.safetensors")[0] for run in ("whole", "killed"))
    assert one.keys() == other.keys()
    assert all((one[name] == other[name]).all() for name in one)
    assert got.accuracy == wanted.accuracy
    clean = [{**row, "seconds": 0} for row in read_history(tmp_path / "whole/history.jsonl")]
    assert [{**row, "seconds": 0} for row in read_history(tmp_path / "killed/history.jsonl")] == clean


@pytest.mark.parametrize("heads_first", [0, 1])
@pytest.mark.parametrize("steps", [1, 4, 5, 7])
def test_stopped_within_and_between_epochs_it_goes_on(tmp_path, monkeypatch, steps, heads_first):
    data, whole, learner = toy(), darts(), darts()
    training = QUICK.model_copy(update={"drop_path": 0.3, "average": 0.5, "heads_first": heads_first})
    fit(whole, data, training)
    monkeypatch.setattr("quorate.train.keeping.save_checkpoint", stop_after(steps))
    with pytest.raises(StoppedError):
        fit(learner, data, training, folder=tmp_path)
    monkeypatch.undo()
    again = darts(seed=7)  # what it begins with does not matter: the checkpoint holds everything
    fitted = fit(again, data, training, folder=tmp_path)
    assert same(state_of(again), state_of(whole))
    assert [row["epoch"] for row in fitted.history] == [0, 1]


def test_two_runs_with_one_seed_are_one_and_the_framework_is_left_alone():
    torch.manual_seed(5)
    before, learners = torch.get_rng_state(), []
    for seed in (0, 0, 1):
        learner = darts()
        torch.set_rng_state(before)
        fit(learner, toy(), QUICK.model_copy(update={"seed": seed, "drop_path": 0.3}))
        assert torch.equal(torch.get_rng_state(), before)
        learners.append(state_of(learner))
    assert same(learners[0], learners[1])
    assert not same(learners[0], learners[2])


def test_learners_of_a_committee_have_streams_of_their_own():
    one, other = linear(), linear()
    fit(one, toy(), QUICK, number=0)
    fit(other, toy(), QUICK, number=1)
    assert not same(state_of(one), state_of(other))


def stopped(folder, monkeypatch, steps=5):
    monkeypatch.setattr("quorate.train.keeping.save_checkpoint", stop_after(steps))
    with pytest.raises(StoppedError):
        fit(darts(), toy(), QUICK, folder=folder)
    monkeypatch.undo()
    return sorted((folder / "checkpoint").iterdir())


@pytest.mark.parametrize("keep", [0, 100, 0.5, -1])
def test_a_cut_checkpoint_makes_way_for_the_one_before_it(tmp_path, monkeypatch, keep):
    _, newer = stopped(tmp_path, monkeypatch)
    data = newer.read_bytes()
    newer.write_bytes(data[: int(keep * len(data)) if 0 < keep < 1 else keep])
    learner, whole = darts(), darts()
    with pytest.warns(UserWarning, match=f"{newer.name}.*going on from the checkpoint before it"):
        fit(learner, toy(), QUICK, folder=tmp_path)
    fit(whole, toy(), QUICK)
    assert same(state_of(learner), state_of(whole))


def test_one_changed_bit_is_found(tmp_path, monkeypatch):
    _, newer = stopped(tmp_path, monkeypatch)
    data = bytearray(newer.read_bytes())
    data[-100] ^= 1
    newer.write_bytes(data)
    with pytest.warns(UserWarning, match="does not match its checksum"):
        fit(darts(), toy(), QUICK, folder=tmp_path)


def test_when_all_checkpoints_are_broken_nothing_is_begun_anew_in_silence(tmp_path, monkeypatch):
    for path in stopped(tmp_path, monkeypatch):
        path.write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="is empty"),
        pytest.raises(QuorateError, match="no checkpoint can be read.*remove .*checkpoint"),
    ):
        fit(darts(), toy(), QUICK, folder=tmp_path)
    with pytest.raises(QuorateError, match="remove"):  # and it stays an error
        fit(darts(), toy(), QUICK, folder=tmp_path)


def test_another_training_in_the_same_folder_is_refused(tmp_path, monkeypatch):
    stopped(tmp_path, monkeypatch)
    with pytest.raises(QuorateError, match=r"holds another training \(training.rate was 0.025, is 0.05\)"):
        fit(darts(), toy(), QUICK.model_copy(update={"rate": 0.05}), folder=tmp_path)
    with pytest.raises(QuorateError, match="data.labels was"):
        fit(darts(), toy(90), QUICK, folder=tmp_path)
    other = darts(exits="end")
    with pytest.raises(QuorateError, match="another network"):
        fit(other, toy(), QUICK, folder=tmp_path)


def test_a_finished_training_is_loaded_not_repeated(tmp_path):
    first, second = darts(), darts(seed=3)
    wanted = fit(first, toy(), QUICK, folder=tmp_path)
    got = fit(second, toy(), QUICK, folder=tmp_path, listen=pytest.fail)
    assert same(state_of(first), state_of(second))
    assert (got.accuracy, len(got.history)) == (wanted.accuracy, len(wanted.history))
    assert not (tmp_path / "checkpoint").exists()
    with pytest.raises(QuorateError, match="another training"):
        fit(darts(), toy(), QUICK.model_copy(update={"seed": 1}), folder=tmp_path)


def test_a_full_disk_is_said_and_what_was_kept_stays(tmp_path, monkeypatch):
    before = stopped(tmp_path, monkeypatch)

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("quorate.store.atomic.os.fsync", full)
    with pytest.raises(QuorateError, match="cannot be written: No space left on device"):
        fit(darts(), toy(), QUICK, folder=tmp_path)
    monkeypatch.undo()
    assert sorted((tmp_path / "checkpoint").iterdir()) == before
    fit(darts(), toy(), QUICK, folder=tmp_path)


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(QuorateError, match="file/run: cannot be written: Not a directory"):
        fit(darts(), toy(), QUICK, folder=tmp_path / "file" / "run")


def test_two_writers_do_not_meet(tmp_path):
    def second(told):
        with pytest.raises(QuorateError, match="another process is writing there"):
            fit(darts(), toy(), QUICK, folder=tmp_path)

    fit(darts(), toy(), QUICK, folder=tmp_path, listen=second)


def test_a_line_that_was_never_finished_is_left_out(tmp_path, monkeypatch):
    stopped(tmp_path, monkeypatch, steps=6)
    with (tmp_path / "history.jsonl").open("a") as file:
        file.write(json.dumps({"epoch": 1}) + "\n" + '{"epoch": 2, "lo')
    fitted = fit(darts(), toy(), QUICK, folder=tmp_path)
    assert [row["epoch"] for row in read_history(tmp_path / "history.jsonl")] == [0, 1]
    assert "loss" in fitted.history[1]


def test_a_broken_line_is_said(tmp_path):
    append_history(tmp_path / "h.jsonl", {"epoch": 0})
    with (tmp_path / "h.jsonl").open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(QuorateError, match="line 2 is not JSON: remove it"):
        read_history(tmp_path / "h.jsonl")


def test_the_newest_two_checkpoints_are_kept(tmp_path):
    for step in range(12):
        save_checkpoint(tmp_path, step, {"w": np.full(1, step)}, {"step": step})
    assert len(list(tmp_path.iterdir())) == 2
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert found[1] == {"step": 11}
