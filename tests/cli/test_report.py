"""``quorate evaluate`` and ``quorate report``, as a person calls them."""

import json
import shutil

import numpy as np
import pytest

from quorate.cli import main
from quorate.report.results import read_results
from quorate.squad import Rule
from quorate.store import read_votes, write_votes
from quorate.store.run import RunFolder, held, read_committee
from tests.cli.test_replay import DIGITS, python


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two tiny learners, without votes."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    labels = np.arange(240) % 2
    images = (60 * rng.random((240, 8, 8)) + 150 * labels[:, None, None] * (rng.random((240, 1, 1)) > 0.2)).astype(
        np.uint8
    )
    np.savez(folder / "toy.npz", images=images, labels=labels)
    flags = ["--channels", "2", "--cells", "3", "--epochs", "2", "--batch", "16", "--threads", "1", "--learners", "2"]
    assert main(["train", "--data", f"arrays:{folder / 'toy.npz'}", "--run", str(folder / "run"), *flags]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def evaluated(run):
    assert main(["evaluate", str(run), "--threads", "1"]) == 0
    return run


def test_evaluate_records_what_is_missing_and_says_what_it_found(run, capsys):
    assert main(["evaluate", str(run), "--threads", "1"]) == 0
    said = capsys.readouterr().out
    assert "static soft vote" in said
    assert "truth \\ answer" in said
    assert "answers and exits agree" in said or "by the rounding of recorded votes" in said
    assert "ms an image in batches of 1" in said
    votes = read_votes(run / "votes" / "votes.safetensors")
    results = read_results(run / "report" / "results.json")
    assert results["samples"] == len(votes.of("test").labels)
    assert results["engine"]["backend"] == "torch"
    assert results["own"]["policy"] == str(read_committee(RunFolder(run).committee).policy)


def test_evaluate_with_onnxruntime(evaluated, capsys):
    pytest.importorskip("onnxruntime")
    assert main(["evaluate", str(evaluated), "--backend", "onnxruntime", "--threads", "1", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["engine"]["backend"] == "onnxruntime"
    assert results["engine"]["unexplained"] == 0
    assert results["engine"]["accuracy"] == pytest.approx(results["own"]["accuracy"], abs=0.03)


def test_report_writes_a_page_and_keeps_what_an_evaluation_found(evaluated, capsys):
    assert main(["report", str(evaluated)]) == 0
    said = capsys.readouterr().out.strip().splitlines()[-1]
    assert said.startswith(f"report: {evaluated / 'report' / 'index.html'} (")
    assert "points against the static ensemble; MACs: " in said
    page = (evaluated / "report" / "index.html").read_text()
    assert "data:image/png;base64" in page
    assert "genotype of 0 DARTS_V2, 1 DARTS_V2" in page
    assert "Training of 0 DARTS_V2" in page
    assert read_results(evaluated / "report" / "results.json")["engine"]["samples"] > 0


def test_another_wish_keeps_what_an_evaluation_found(evaluated, tmp_path):
    shutil.copytree(evaluated, tmp_path / "run")
    assert main(["report", str(tmp_path / "run"), "--max-drop", "3"]) == 0
    results = read_results(tmp_path / "run" / "report" / "results.json")
    assert results["wish"]["max_drop"] == 3
    assert results["engine"]["samples"] > 0


def test_another_policy_makes_other_results(evaluated, tmp_path):
    from dataclasses import replace

    from quorate.store.run import write_committee

    shutil.copytree(evaluated, tmp_path / "run")
    place = RunFolder(tmp_path / "run")
    write_committee(place.committee, replace(read_committee(place.committee), policy=Rule("mean", 0.55)))
    assert main(["report", str(tmp_path / "run")]) == 0
    results = read_results(place.report / "results.json")
    assert results["own"]["policy"] == "SQUAD, mean above 0.55"
    assert "engine" not in results  # what it found was another policy's


def test_votes_without_a_run_have_a_page(tmp_path, capsys):
    shutil.copy(DIGITS, tmp_path / "mine.safetensors")
    assert main(["report", str(tmp_path / "mine.safetensors")]) == 0
    assert "mine-report/index.html" in capsys.readouterr().out
    assert read_results(tmp_path / "mine-report" / "results.json")["samples"] == 697


def test_several_runs_are_merged(evaluated, tmp_path, capsys):
    shutil.copytree(evaluated, tmp_path / "b")
    runs = [str(evaluated), str(tmp_path / "b")]
    assert main(["report", *runs, "--out", str(tmp_path / "table.csv")]) == 0
    assert "(n = 2)" in capsys.readouterr().out
    assert (
        (tmp_path / "table.csv").read_text().startswith("data,recipe,selector,policy,runs,accuracy,accuracy deviation")
    )
    assert main(["report", *runs, "--out", str(tmp_path / "table.html"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
    assert "Several runs" in (tmp_path / "table.html").read_text()


def test_two_commands_on_one_run_are_refused(evaluated, capsys):
    code = f"import sys; from quorate.cli import main; sys.exit(main(['report', {str(evaluated)!r}]))"
    with held(evaluated):
        done = python(code)
    assert done.returncode == 2
    assert "another process is writing there" in done.stderr


def test_votes_of_other_images_are_refused(evaluated, tmp_path, capsys):
    shutil.copytree(evaluated, tmp_path / "run")
    path = tmp_path / "run" / "votes" / "votes.safetensors"
    votes = read_votes(path)
    write_votes(votes._replace(labels=1 - votes.labels), path)
    assert main(["evaluate", str(tmp_path / "run")]) == 2
    assert "holds votes on other images" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "nowhere"], "there is no such run"),
        (["evaluate", "."], "is not a finished run"),
        (["report", "nowhere"], "there is no such run"),
        (["report", "a", "b", "--out", "table.txt"], "must end in .json, .csv or .html"),
        (["report", "a", "./a"], "each run counts once"),
        (["report", DIGITS, "--out", "page.html"], "out must be a folder"),
        (["report", DIGITS, "--max-drop", "101"], "max_drop must lie in 0 to 100"),
    ],
)
def test_mistakes_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_split_that_chooses_cannot_judge(evaluated, capsys):
    assert main(["evaluate", str(evaluated), "--split", "calibration"]) == 2
    assert "thresholds are chosen there" in capsys.readouterr().err


def test_help_needs_no_torch():
    for command in ("evaluate", "report"):
        done = python(
            f"import sys; from quorate.cli import main; status = main([{command!r}, '--help']); "
            "sys.exit(status or 'torch' in sys.modules)"
        )
        assert done.returncode == 0, done.stderr
        assert "quorate " + command in done.stdout
