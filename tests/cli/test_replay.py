import json
import subprocess
import sys
import time

import numpy as np
import pytest

from quorate.cli import main
from quorate.squad import Confidence, Rule, Static, replay
from quorate.store import read_votes
from tests.readme import ROOT

DIGITS = str(ROOT / "examples" / "digits.safetensors")


def said(capsys, *arguments):
    assert main(["replay", DIGITS, *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "policy"),
    [
        (["--threshold", "0.8"], Rule(threshold=0.8)),
        (["--criterion", "mean", "--panel", "all"], Rule("mean", panel="all")),
        (["--significance", "0.2"], Rule(significance=0.2)),
        (["--policy", "static"], Static()),
        (["--policy", "confidence", "--learner", "1"], Confidence(1)),
    ],
)
@pytest.mark.parametrize("split", [None, "calibration"])
def test_what_is_printed_is_what_replay_gives(capsys, flags, policy, split):
    chosen = [] if split is None else ["--split", split]
    document = json.loads(said(capsys, *flags, *chosen, "--json"))
    votes = read_votes(DIGITS).of(split or "test")
    outcome = replay(votes.probs, votes.macs, policy)
    assert document["policy"] == str(policy)
    assert document["accuracy"] == pytest.approx((outcome.label == votes.labels).mean())
    assert document["costs"]["lazy"] == pytest.approx(outcome.lazy_macs.mean())
    assert sum(document["left"]) + sum(document["forced"]) == pytest.approx(1)
    table = said(capsys, *flags, *chosen)
    assert f"{100 * document['accuracy']:.2f} %" in table
    assert f"split {split or 'test'}" in table


def test_a_sweep_is_many_replays(capsys, tmp_path):
    out = tmp_path / "sweep.json"
    said(capsys, "--sweep", "--out", str(out))
    rows = json.loads(out.read_text())["sweep"]
    votes = read_votes(DIGITS).of("test")
    for row in rows[3::7]:
        outcome = replay(votes.probs, votes.macs, Rule(row["criterion"], row["threshold"]))
        assert row["accuracy"] == pytest.approx((outcome.label == votes.labels).mean())
        assert row["f-mt"] == pytest.approx(outcome.parallel_energy.mean())
    assert {row["criterion"] for row in rows} == {"mean", "t-test"}


@pytest.mark.parametrize("flags", [[], ["--sweep"]])
def test_csv_has_a_row_per_result(capsys, tmp_path, flags):
    out = tmp_path / "rows.csv"
    said(capsys, *flags, "--out", str(out))
    head, *rows = out.read_text().splitlines()
    assert "accuracy" in head
    assert len(rows) == (30 if flags else 1)


def test_one_learner_with_absences_from_another_framework(capsys, tmp_path):
    path = tmp_path / "one.npz"
    present = np.array([[[True, False]], [[False, False]]])
    probs = np.full((2, 1, 2, 3), 1 / 3)
    probs[~present] = np.nan
    np.savez(path, probs=probs, labels=[0, 1], macs=[[1], [2]], present=present)
    assert main(["replay", str(path), "--criterion", "mean"]) == 0
    assert "2 samples could not be answered" in capsys.readouterr().out
    assert main(["replay", str(path)]) == 2
    assert "use criterion='mean'" in capsys.readouterr().err
    assert main(["replay", str(path), "--sweep"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.safetensors"], "nowhere.safetensors: cannot be read"),
        ([DIGITS, "--threshold", "1.6"], "threshold must lie in [0, 1), got 1.6"),
        ([DIGITS, "--split", "train"], "split must be one of 'calibration', 'test', got 'train'"),
        ([DIGITS, "--policy", "confidence", "--learner", "7"], "learner must lie in 0 to 2, got 7"),
        ([DIGITS, "--out", "table.txt"], "must end in .json or .csv, got 'table.txt'"),
        ([DIGITS, "--out", "no/such/folder/x.json"], "cannot be written"),
    ],
)
def test_mistakes_are_one_line_and_status_2(capsys, arguments, message):
    assert main(["replay", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_debug_shows_where(capsys):
    with pytest.raises(ValueError, match="threshold"):
        main(["replay", DIGITS, "--threshold", "2", "--debug"])


def python(code):
    return subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)


def test_help_is_quick_and_the_command_needs_no_torch():
    start = time.perf_counter()
    code = "import sys; from quorate.cli import main; main({}); assert 'torch' not in sys.modules"
    assert python(code.format(["--help"])).returncode == 0
    assert time.perf_counter() - start < 5  # the figure itself is in RECORDS.md; this only catches a heavy import
    done = python(code.format(["replay", DIGITS]))
    assert done.returncode == 0, done.stderr


def test_the_base_install_says_what_to_install():
    done = python("import sys; sys.modules['cyclopts'] = None; from quorate.cli import main; sys.exit(main([]))")
    assert done.returncode == 2
    assert done.stderr == "quorate: this command needs the package 'cyclopts': pip install 'quorate[votes]'\n"


def test_interrupt_is_130(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("quorate.cli.app.build", interrupted)
    assert main([]) == 130
    assert capsys.readouterr().err == "quorate: interrupted\n"
