"""``quorate search`` as a person calls it."""

import numpy as np
import pytest

from quorate.cli import main
from quorate.nets import Genotype
from quorate.store.search import read_genotypes, read_search

pytestmark = pytest.mark.filterwarnings("ignore:(the logits barely moved|[0-9]+ % of the kept edges)")

SETTINGS = {
    **{"channels": 2, "cells": 3, "epochs": 1, "posterior-epochs": 1, "batch": 16, "architectures": 1, "rounds": 1},
    **{"svgd-steps": 5, "pool": 3, "scoring-images": 16, "estimation-images": 16, "logit-rate": 0.3},
    **{"threads": 1, "learners": 2},
}
SMALL = [word for name, value in SETTINGS.items() for word in (f"--{name}", str(value))]


@pytest.fixture
def toy(tmp_path):
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (110, 8, 8), dtype=np.uint8), np.arange(110) % 2
    np.savez(tmp_path / "toy.npz", images=images, labels=labels)
    return f"arrays:{tmp_path / 'toy.npz'}"


def test_a_search_makes_committees_and_another_selector_joins_them(toy, tmp_path, capsys):
    flags = ["--data", toy, "--run", str(tmp_path / "run"), *SMALL]
    assert main(["search", *flags, "--selector", "svgd", "--selector", "greedy"]) == 0
    said = capsys.readouterr()
    assert "a step needs about" in said.err
    assert "joint loss" in said.out
    assert main(["search", *flags, "--selector", "random"]) == 0
    said = capsys.readouterr()
    assert all(name in said.out for name in ("svgd 1", "greedy 0", "random 1"))
    documents = read_genotypes(tmp_path / "run")
    assert {name: len({Genotype(**one) for one in found}) for name, found in documents.items()} == {
        "svgd": 2, "greedy": 2, "random": 2,
    }  # fmt: skip


def test_flags_win_over_a_recipe(toy, tmp_path):
    assert main(["search", "--recipe", "digits", "--data", toy, "--run", str(tmp_path / "run"), *SMALL]) == 0
    config = read_search(tmp_path / "run")[1]["config"]
    assert (config["channels"], config["batch"], config["rate"], config["cost_weight"]) == (2, 16, 0.05, 0.1)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--recipe", "mars"], "recipe must be one of cifar10_cpu"),
        (["--selector", "luck"], "got 'luck'"),
        (["--epochs", "0"], "--epochs: Input should be greater than or equal to 1"),
        (["--relaxation", "soft", "--estimator", "score"], "needs one evaluated operation"),
        (["--data", "nothing"], "data must be one of"),
        (["--config", "none.toml"], "no such file"),
    ],
)
def test_mistakes_are_lines(flags, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        status = main(["search", *flags])
    except SystemExit as ended:  # what cyclopts finds wrong ends the process itself
        status = ended.code
    assert status == 2
    err = " ".join(capsys.readouterr().err.split())
    assert said in err
    assert "Traceback" not in err
