"""``quorate train`` as a person calls it."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from quorate.cli import main
from quorate.store import read_votes
from quorate.store.run import read_committee, read_config
from quorate.store.weights import read_weights

SMALL = ["--channels", "2", "--cells", "3", "--epochs", "2", "--batch", "16", "--threads", "1"]


@pytest.fixture
def toy(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (80, 8, 8), dtype=np.uint8), np.arange(80) % 2
    np.savez(tmp_path / "toy.npz", images=images, labels=labels)
    return f"arrays:{tmp_path / 'toy.npz'}"


def test_flags_make_a_run(toy, tmp_path, capsys):
    flags = ["--data", toy, "--genotype", "DARTS_V1", "--genotype", "DARTS_V2", "--run", str(tmp_path / "run"), *SMALL]
    assert main(["train", *flags, "--votes"]) == 0
    said = capsys.readouterr()
    assert "test accuracy" in said.out
    assert "0 DARTS_V1" in said.out
    assert "learner 1  epoch 2/2" in said.err
    learners = read_committee(tmp_path / "run/committee.json").learners
    assert [(one.input.channels, one.network["image_channels"]) for one in learners] == [(1, 1)] * 2  # grey images
    assert read_config(tmp_path / "run/config.json")["about"]["genotype"] == ["DARTS_V1", "DARTS_V2"]
    assert set(read_votes(tmp_path / "run/votes/votes.safetensors").split) == {"calibration", "test"}
    assert main(["replay", str(tmp_path / "run/votes/votes.safetensors")]) == 0


def test_a_file_says_the_same_and_flags_win_over_it(toy, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        f'data = "{toy}"\nrun = "{tmp_path / "a"}"\nchannels = 2\ncells = 3\nepochs = 7\nbatch = 16\nlearners = 1\n'
        "exit_weights = [0.5, 1.0]\nmirror = true\nthreads = 1\n"
    )
    assert main(["train", "--config", str(file), "--epochs", "2"]) == 0
    about = read_config(tmp_path / "a/config.json")["about"]
    assert (about["epochs"], about["exit_weights"], about["mirror"]) == (2, [0.5, 1.0], True)
    flags = ["--exit-weights", "0.5", "--exit-weights", "1.0", "--mirror", "--run", str(tmp_path / "b")]
    assert main(["train", "--data", toy, *flags, *SMALL]) == 0
    one, other = (read_weights(tmp_path / run / "learners/0/weights.safetensors")[0] for run in "ab")
    assert all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--config", "nowhere.toml"], "nowhere.toml: no such file; --config names a TOML file"),
        (["--data", "cifar11"], "data must be one of digits"),
        (["--genotype", "DARTS_V9"], "'DARTS_V9' is neither a file nor a genotype"),
        (["--exit-weights", "1", *SMALL], "exit_weights must be one for each of 2 exits"),
        (["--device", "gpu", *SMALL], "device must be cpu, cuda or, of several, cuda:1, got 'gpu'"),
    ],
)
def test_mistakes_are_one_line(flags, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *flags]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--epochs", "0"], "greater than or equal to 1"),
        (["--accumulate", "7"], "batch must be a multiple of accumulate"),
        (["--bogus", "1"], "Unknown option"),
    ],
)
def test_settings_that_make_no_sense_are_refused(flags, said, capsys):
    with pytest.raises(SystemExit):
        main(["train", *flags])
    printed = capsys.readouterr()
    assert said in printed.err + printed.out


def test_an_unknown_setting_of_a_file_is_refused(tmp_path, capsys):
    (tmp_path / "a.toml").write_text("epoch = 3\n")
    with pytest.raises(SystemExit):
        main(["train", "--config", str(tmp_path / "a.toml")])
    printed = capsys.readouterr()
    assert "epoch" in printed.err + printed.out


def test_help_needs_no_torch():
    code = (
        "import sys; from quorate.cli import main; status = main(['train', '--help']); "
        "sys.exit(status or 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "--exit-weights" in done.stdout


def test_interrupted_it_says_how_to_go_on_and_goes_on(toy, tmp_path):
    flags = ["--data", toy, "--checkpoint-seconds", "0", *SMALL, "--run", str(tmp_path / "a")]
    flags[flags.index("--epochs") + 1] = "200"
    command = [sys.executable, "-m", "quorate.cli", "train", *flags]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # what runs in the background inherits deafness
    )
    assert process.stderr is not None
    while "epoch 2/200" not in process.stderr.readline():
        assert process.poll() is None
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"the same command goes on from the last checkpoint in {tmp_path / 'a'}" in said
    history = (tmp_path / "a/learners/0/history.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in history][:2] == [0, 1]
    _, newest = sorted((tmp_path / "a/learners/0/checkpoint").iterdir())
    newest.write_bytes(newest.read_bytes()[:1000])
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert process.stderr is not None
    lines = [process.stderr.readline() for _ in range(2)]
    process.kill()
    process.communicate()
    assert lines[0].startswith("quorate: ")
    assert "going on from the checkpoint before it" in lines[0]
    epochs = (len(history), len(history) + 1)  # the cut one may have been the first of its epoch
    assert any(lines[1].startswith(f"learner 0  epoch {epoch}/200") for epoch in epochs)
