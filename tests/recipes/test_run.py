"""Whole runs as a user makes them, tiny."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image

import quorate
from quorate.cli import main
from quorate.cli.app import build
from quorate.recipes.config import RunConfig
from quorate.store.phases import Phases
from quorate.store.run import RunFolder, read_committee, write_config
from quorate.store.tuning import read_tuning
from quorate.store.weights import read_weights
from quorate.train import Training
from tests.recipes.test_models import OWN

SMALL = ["--data", "digits", "--training.batch", "256", "--channels", "2", "--cells", "3", "--threads", "1"]
GIVEN = [*SMALL, "--genotype", "DARTS_V1", "--genotype", "DARTS_V2"]
FLOW = [*GIVEN, "--training.epochs", "1"]


def weights(run, k=0):
    return read_weights(RunFolder(run).weights(k))[0]


def test_a_run_is_trained_tuned_and_loaded_and_then_skipped(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["run", "digits", *FLOW, "--to", "tune", "--run", str(run)]) == 0
    said = capsys.readouterr().err
    assert all(f"{name} ..." in said for name in ("train", "tune"))
    assert "search" not in said
    tuned = read_tuning(run)
    assert tuned["policy"] == str(read_committee(RunFolder(run).committee).policy)
    assert (run / "report" / "frontier.svg").stat().st_size > 1000
    committee = quorate.load(run)
    assert committee(np.zeros((2, 8, 8, 1), np.uint8)).label.shape == (2,)
    assert main(["run", "digits", *FLOW, "--to", "tune", "--run", str(run)]) == 0
    assert capsys.readouterr().err.count("done before") == 2
    # training again by another command finds everything done, and leaves the policy that was tuned
    assert main(["tune", str(run), "--max-drop", "5", "--policy", "squad"]) == 0
    assert "squad" in str(read_tuning(run)["chosen"]["family"])
    assert set(Phases.read(RunFolder(run).phases).done) == {"train", "tune"}
    assert main(["run", "digits", *GIVEN, "--to", "train", "--run", str(run), "--training.epochs", "2"]) == 2
    assert "holds another run (training.epochs was 1, is 2)" in capsys.readouterr().err


def test_its_configuration_repeats_it_to_the_same_weights(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    assert main(["run", "digits", *FLOW, "--seed", "3", "--to", "train", "--run", str(one)]) == 0
    assert main(["run", "--config", str(one / "config.json"), "--to", "train", "--run", str(other)]) == 0
    for k in (0, 1):
        first, second = weights(one, k), weights(other, k)
        assert all((first[name] == second[name]).all() for name in first)


def photos(folder, count=40, side=40):
    rng = np.random.default_rng(0)
    for k, name in enumerate(("dark <b>", "light")):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            pixels = rng.integers(0, 100, (side, side + 8, 3)) + 120 * k
            Image.fromarray(pixels.astype(np.uint8)).save(folder / name / f"{i}.png")
    return folder


def test_photographs_and_a_network_of_ones_own(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(OWN.replace("Conv2d(1 if", "Conv2d(3 if"))
    folder, run = photos(tmp_path / "photos"), tmp_path / "run"
    tokens = ["run", "--data", f"folder:{folder}/", "--model", f"{tmp_path}/mine.py:build@1", "--model",
              f"{tmp_path}/mine.py:build", "--side", "8", "--training.epochs", "2", "--training.heads-first", "1",
              "--threads", "1", "--run", str(run)]  # fmt: skip
    assert main([*tokens, "--to", "tune"]) == 0
    record = read_committee(RunFolder(run).committee)
    assert [one.network["kind"] for one in record.learners] == ["own", "own"]
    assert record.classes == ("dark <b>", "light")
    capsys.readouterr()
    assert main([*tokens, "--to", "tune", "--from", "tune"]) == 0  # made anew from the file that the run remembers


def test_controls_cost_what_they_are_compared_with(tmp_path):
    first, same, single = (tmp_path / name for name in ("first", "same", "single"))
    flow = [token if token != "2" else "6" for token in SMALL] + ["--training.epochs", "1", "--to", "train"]
    given = ["--genotype", "DARTS_V1", "--genotype", "DARTS_V2"]
    assert main(["run", "digits", *flow, *given, "--run", str(first)]) == 0
    assert main(["run", "digits", *flow, "--match-macs", str(first), "--run", str(same)]) == 0
    assert main(["run", "digits", *flow, *given, "--single", "--run", str(single)]) == 0
    wanted, matched, alone = (
        np.array(read_committee(RunFolder(r).committee).macs).sum(0) for r in (first, same, single)
    )
    assert matched == pytest.approx(wanted, rel=0.05)
    assert alone.shape == (1,)
    assert alone.sum() == pytest.approx(wanted.sum(), rel=0.2)  # two channels at a time


def test_interrupted_it_goes_on(tmp_path):
    run = tmp_path / "run"
    tokens = [sys.executable, "-m", "quorate.cli", "run", "digits", *GIVEN, "--training.epochs", "40", "--to", "train",
              "--run", str(run)]  # fmt: skip
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(tokens, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr:
            if "epoch 1/" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.wait(30) == 130
    assert "the same command goes on where" in rest
    assert "Traceback" not in rest
    assert not RunFolder(run).committee.exists()
    assert json.loads((run / "config.json").read_text())["run"]["training"]["epochs"] == 40


def test_two_commands_on_one_run_are_refused(tmp_path):
    from quorate.store.run import held

    run = tmp_path / "run"
    tokens = [sys.executable, "-m", "quorate.cli", "run", "digits", *FLOW, "--to", "train", "--run", str(run)]
    with held(run):
        found = subprocess.run(tokens, capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert "another process is writing there" in found.stderr


SEARCH = {"channels": 2, "cells": 3, "epochs": 1, "posterior-epochs": 1, "svgd-steps": 10, "rounds": 1, "pool": 4,
          "scoring-images": 64, "batch": 128, "logit-rate": 0.2}  # fmt: skip
TINY = [token for name, value in SEARCH.items() for token in (f"--search.{name}", str(value))]


@pytest.mark.filterwarnings("ignore::UserWarning")  # so short a search warns of itself
def test_phases_can_be_run_alone_and_find_what_those_before_them_left(tmp_path, capsys):
    run = tmp_path / "run"
    whole = ["run", "digits", *SMALL, *TINY, "--training.epochs", "1", "--learners", "2", "--run", str(run)]
    assert main([*whole, "--to", "search"]) == 0
    assert main(["train", "--run", str(run)]) == 0  # settings and genotypes are the run's
    record = read_committee(RunFolder(run).committee)
    assert [one.name for one in record.learners] == ["0 svgd", "1 svgd"]
    assert record.learners[0].network["channels"] == 2
    assert main(["tune", str(run), "--max-drop", "3"]) == 0
    before = weights(run)
    capsys.readouterr()
    assert main([*whole, "--to", "train"]) == 0
    assert all((weights(run)[name] == before[name]).all() for name in before)
    assert "epoch" not in capsys.readouterr().err  # nothing was trained again
    assert main(["train", "--run", str(run), "--genotypes", str(run), "--selector", "greedy"]) == 2
    assert "holds no committee chosen by greedy, only by svgd" in capsys.readouterr().err
    other = ["run", "digits", *SMALL, "--genotypes", str(run), "--learners", "2", "--training.epochs", "1"]
    assert main([*other, "--to", "train", "--run", str(tmp_path / "other")]) == 0
    assert all((weights(tmp_path / "other")[name] == before[name]).all() for name in before)


def recorded(folder, **settings):
    write_config(RunFolder(folder).config, {"run": RunConfig(**settings).seeded().model_dump(mode="json")})
    return ["train", "--run", str(folder)]


def test_training_alone_takes_the_learners_of_the_run(tmp_path):
    tokens = recorded(tmp_path, genotype=("DARTS_V1",), channels=2, training=Training(epochs=3))
    _, bound, _ = build(tokens).parse_args(tokens)
    settings = bound.arguments["settings"]
    assert (settings.genotype, settings.learners, settings.selector) == (("DARTS_V1",), 3, None)
    assert (settings.channels, settings.epochs) == (2, 3)


@pytest.mark.parametrize("settings", [{"single": True}, {"match_macs": "runs/a"}, {"exits": "end"}])
def test_training_alone_does_not_train_something_else(tmp_path, capsys, settings):
    assert main(recorded(tmp_path, **settings)) == 2
    assert f"is a run with {next(iter(settings))}, which `quorate train` cannot say" in capsys.readouterr().err


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_everything_of_a_run(tmp_path, capsys):
    run = tmp_path / "run"
    tiny = [*TINY, *SMALL, "--training.epochs", "2", "--measuring.batches", "1"]
    began = time.monotonic()
    assert main(["run", "digits", *tiny, "--run", str(run)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "index.html" in last
    assert "points against the static ensemble; MACs: " in last
    assert "time: " in last
    assert (run / "report" / "index.html").stat().st_size < 3e6
    assert quorate.load(run / "bundle", threads=1).milliseconds
    assert time.monotonic() - began < 300
    assert main(["report", str(run), str(run), "--json"]) == 2  # it would count twice
