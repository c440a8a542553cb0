import csv
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import quorate
from quorate.cli import main
from quorate.engine import Committee, InputSpec
from quorate.nets import attach_exits
from quorate.squad import Rule, Votes
from quorate.store import write_policy, write_votes
from quorate.store.bundle import read_bundle, write_manifest
from quorate.store.timings import Timing, this_machine, write_timings

SPEC = InputSpec(8, 8, 3, (0.5, 0.5, 0.5), (0.3, 0.3, 0.3))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    torch.manual_seed(0)
    learners = []
    for _ in range(2):
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 2)
        )
        learners.append(attach_exits(model, exits=["1"], classes=2, sample=torch.zeros(2, 3, 8, 8)))
    path = tmp_path_factory.mktemp("cli") / "bundle"
    Committee(learners, Rule("mean", 0.55), classes=["bright", "dark"], inputs=SPEC).export(path)
    return path


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    (folder / "more").mkdir()
    rng = np.random.default_rng(0)
    for i in range(5):
        pixels = rng.integers(0, 256, size=(8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / ("more" if i > 2 else "") / f"{i}.png")
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_predict_says_what_the_bundle_says(bundle, photos, capsys):
    assert main(["predict", str(bundle), str(photos), "--threads", "1", "--batch", "2"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    files = sorted(photos.rglob("*.png"))
    assert [row["file"] for row in rows] == [str(file) for file in files]
    committee = quorate.load(bundle, threads=1)
    answer = committee([Image.open(file) for file in files])
    assert [row["label"] for row in rows] == [committee.classes[label] for label in answer.label]
    assert [int(row["exit"]) for row in rows] == answer.exit.tolist()
    np.testing.assert_allclose([float(row["confidence"]) for row in rows], answer.confidence, atol=1e-4)
    np.testing.assert_allclose([float(row["lazy"]) for row in rows], answer.lazy_macs)


def test_predict_writes_json_lines_and_leaves_out_what_is_no_picture(bundle, photos, tmp_path, capsys):
    broken, out = tmp_path / "broken.png", tmp_path / "answers.jsonl"
    broken.write_bytes(b"not a picture")
    assert main(["predict", str(bundle), str(photos / "0.png"), str(broken), "--threads", "1", "--out", str(out)]) == 0
    (row,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert set(row) == {"file", "label", "confidence", "exit", "passed", "lazy"}
    assert "left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.png"], "no such file or folder"),
        (["EMPTY"], "no pictures there"),
        (["BROKEN"], "none of the 1 pictures could be read"),
        (["0.png", "--out", "a.txt"], "must be a .csv or .jsonl file"),
        (["0.png", "--batch", "0"], "batch must be at least 1"),
    ],
)
def test_predict_refuses_in_one_line(bundle, tmp_path, capsys, arguments, message):
    (tmp_path / "broken.png").write_bytes(b"no")
    (tmp_path / "empty").mkdir()
    named = {"EMPTY": str(tmp_path / "empty"), "BROKEN": str(tmp_path / "broken.png")}
    assert main(["predict", str(bundle), *(named.get(a, a) for a in arguments), "--threads", "1"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert message in said[-1]


@pytest.mark.parametrize("flags", [["--source", "parallel"], ["--backend", "openvino"]])
def test_predict_says_the_same_whoever_runs(bundle, photos, capsys, flags):
    said = []
    for more in ([], flags):
        assert main(["predict", str(bundle), str(photos), "--threads", "1", *more]) == 0
        said.append([row["label"] for row in csv.DictReader(capsys.readouterr().out.splitlines())])
    assert said[0] == said[1]


def test_auto_takes_what_was_measured_to_be_the_fastest_here(bundle, tmp_path):
    with pytest.warns(UserWarning, match="run `quorate bench`"):
        assert quorate.load(bundle, source="auto", threads=1).fastest(1) == "lazy"
    measured = Path(shutil.copytree(bundle, tmp_path / "measured"))
    table = np.ones((2, 2))
    known = {"1": "parallel", "32": "eager", "64": "nonsense"}
    here = Timing("onnxruntime", "cpu", 1, {1: table}, hardware=this_machine(), about={"fastest": known})
    write_timings(measured, [here])
    committee = quorate.load(measured, source="auto", threads=1)
    assert [committee.fastest(n) for n in (1, 2, 5, 6, 32, 10_000)] == ["parallel"] * 3 + ["eager"] * 3
    images = np.random.default_rng(0).integers(0, 256, size=(8, 8, 8, 3), dtype=np.uint8)
    assert committee(images[:1]).arrival is not None
    assert committee(images).arrival is None
    write_timings(measured, [dataclasses.replace(here, hardware={"processor": "another"})])
    with pytest.warns(UserWarning, match="nobody measured here"):
        assert quorate.load(measured, source="auto", threads=1).fastest(1) == "lazy"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names must be text here")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_names_that_are_no_text_are_written_all_the_same(bundle, photos, tmp_path, capsys, flags):
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.png"))
    shutil.copy(photos / "0.png", odd)
    out = tmp_path / "answers.csv"
    assert main(["predict", str(bundle), str(odd), "--threads", "1", "--out", str(out), *flags]) == 0
    assert "udcff.png" in out.read_text(encoding="utf-8")


def test_int8_is_refused_before_any_work_where_there_is_something_already(photos, capsys):
    assert main(["export", "nowhere", str(photos), "--int8"]) == 2
    assert "the bundle must be a new or an empty folder" in capsys.readouterr().err


def test_predict_needs_no_torch(bundle, photos):
    code = (
        "import sys; from quorate.cli import main; status = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, "predict", str(bundle), str(photos / "0.png"), "--threads", "1"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 2


def test_info_of_a_bundle(bundle, capsys):
    assert main(["info", str(bundle), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["learners"], document["exits"]) == ("bundle", 2, 2)
    assert document["classes"] == ["bright", "dark"]
    assert document["largest_difference"] < 1e-4
    assert main(["info", str(bundle)]) == 0
    said = capsys.readouterr().out
    assert "SQUAD, mean above 0.55" in said
    assert "learner 1" in said


def test_what_a_bundle_says_about_itself_does_not_replace_what_it_is(bundle, tmp_path, capsys):
    forged = Path(shutil.copytree(bundle, tmp_path / "forged"))
    found = read_bundle(forged)
    names = ("macs", "classes", "branches", "inputs", "names", "chained")
    about = {"kind": "policy", "macs": 3, "about": 4, "learners": [], "note": "forged"}
    write_manifest(forged, **{name: getattr(found, name) for name in names}, about=about)
    assert main(["info", str(forged), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["learners"], document["note"]) == ("bundle", 2, "forged")
    assert main(["info", str(forged)]) == 0
    assert capsys.readouterr().out.startswith("forged: bundle")


def test_info_of_a_policy_and_of_votes(tmp_path, capsys):
    write_policy(Rule("mean", 0.7), tmp_path / "policy.json", {"max_drop": 1})
    probs = np.full((2, 3, 4, 2), 0.5, np.float32)
    split = np.array(["test", "test", "calibration", "test"])
    write_votes(Votes(probs, np.zeros(4, int), np.ones((2, 3)), split), tmp_path / "votes.safetensors")
    assert main(["info", str(tmp_path / "policy.json")]) == 0
    assert "SQUAD, mean above 0.7" in capsys.readouterr().out
    assert main(["info", str(tmp_path / "votes.safetensors"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["splits"] == {"calibration": 1, "test": 3}
    assert document["macs"] == [[1, 1, 1], [1, 1, 1]]
    assert main(["info", str(tmp_path / "votes.safetensors")]) == 0
    assert "arrival recorded" in capsys.readouterr().out


def test_info_refuses_what_it_does_not_know(tmp_path, capsys):
    for name, message in ((".", "neither a bundle"), ("nowhere", "cannot be read")):
        assert main(["info", str(tmp_path / name)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
