import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import quorate
from quorate.cli import main
from quorate.data import load
from quorate.engine import Committee, InputSpec
from quorate.nets import cascade
from quorate.squad import Priced, Rule
from quorate.store import read_policy, write_policy, write_votes
from quorate.store.run import RunFolder, read_config, write_config

SPEC = InputSpec(8, 8, 1, (0.3,), (0.4,))
QUICK = ["--batches", "1", "--batches", "4", "--rounds", "1", "--calls", "8", "--threads", "1"]


def flat(width):
    layers = [torch.nn.Flatten(), torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)]
    return torch.nn.Sequential(*layers)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two cascades of two small networks each, that can tell digits, as bundle and as a run with votes."""
    torch.manual_seed(0)
    folder, digits = tmp_path_factory.mktemp("bench"), load("digits")
    x = torch.tensor(digits.train_images.transpose(0, 3, 1, 2) / np.float32(255))
    y = torch.tensor(digits.train_labels)
    learners = []
    for _ in range(2):
        models = [flat(4), flat(24)]
        for model in models:
            optimiser = torch.optim.Adam(model.parameters(), 0.01)
            for _ in range(60):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(model((x - 0.3) / 0.4), y).backward()
                optimiser.step()
        learners.append(cascade(models))
    committee = Committee(learners, Rule("mean", 0.5), classes=digits.classes, inputs=SPEC)
    committee.export(folder / "bundle")
    votes = committee.record(digits.test_images, digits.test_labels)
    write_votes(votes._replace(split=np.where(np.arange(359) < 200, "calibration", "test")), folder / "v.safetensors")
    committee.save(folder / "run")
    return folder


def test_a_bundle_is_measured_and_knows_its_milliseconds(run, tmp_path, capsys):
    bundle, votes = run / "bundle", str(run / "v.safetensors")
    named = ["--data", "digits", "--votes", votes, "--cache", str(tmp_path), "--out", str(tmp_path / "rows.csv")]
    assert main(["bench", str(bundle), *QUICK, *named, "--policies", "static"]) == 0
    printed = capsys.readouterr().out
    assert "onnxruntime, batches of 4, 8 images a round" in printed
    assert "the cheapest threshold within 0.5 points on the 200 votes of split calibration" in printed
    rows = list(csv.DictReader((tmp_path / "rows.csv").read_text().splitlines()))
    names = {(row["name"], row["source"]) for row in rows}
    assert {("pool", "lazy"), ("SQUAD", "eager"), ("static", "lazy"), ("learner 1", "whole")} <= names
    by_name = {row["name"]: row for row in rows if row["batch"] == "1" and row["source"] in ("whole", "lazy")}
    assert float(by_name["static"]["macs"]) == float(by_name["static ensemble"]["macs"])
    assert float(by_name["static"]["accuracy"]) == float(by_name["static ensemble"]["accuracy"])
    assert sorted(file.name for file in bundle.iterdir() if not file.name.startswith("branch"))[0] == "costs.json"
    committee = quorate.load(bundle, threads=1)
    assert sorted(committee.milliseconds) == [1, 4]
    assert (committee.milliseconds[1] > 0).all()
    assert main(["info", str(bundle)]) == 0
    assert "onnxruntime on cpu, 1 threads, batches of 1/4" in capsys.readouterr().out
    (bundle / "costs.json").write_text("{}")
    assert main(["info", str(bundle)]) == 2
    assert "costs.json: is JSON, but not of the schema quorate.costs" in capsys.readouterr().err
    (bundle / "costs.json").unlink()


def test_policies_are_tuned_in_the_milliseconds_of_a_bundle(run, tmp_path, capsys):
    from quorate.store.timings import Timing, write_timings

    costs = write_timings(tmp_path, [Timing("onnxruntime", "cpu", 1, {1: [[3, 1], [4, 2]]}, {"processor": "Z80"})])
    tune = ["tune", str(run / "v.safetensors"), "--cost", "milliseconds", "--policies", "cascade", "--costs"]
    assert main([*tune, str(costs), "--out", str(tmp_path / "p.json")]) == 0
    assert "Milliseconds of onnxruntime on Z80, 1 threads, batches of 1." in capsys.readouterr().out
    policy, about = read_policy(tmp_path / "p.json")
    assert isinstance(policy, Priced)
    assert policy.costs == ((3, 1), (4, 2))
    assert about["measured"] == "onnxruntime on Z80, 1 threads"
    assert main([*tune, str(tmp_path), "--backend", "torch"]) == 2
    assert "no milliseconds of torch were measured (onnxruntime)" in capsys.readouterr().err
    write_timings(tmp_path, [Timing("onnxruntime", "cpu", 1, {1: [[3, 1]]})])
    assert main([*tune, str(tmp_path)]) == 2
    assert "was measured for [1, 2] branches, the committee has [2, 2]" in capsys.readouterr().err


def test_what_cannot_be_measured_is_refused_in_one_line(run, tmp_path, capsys):
    bundle = str(run / "bundle")
    np.save(tmp_path / "few.npy", np.zeros((2, 8, 8, 1), np.uint8))
    (tmp_path / "broken.npy").write_bytes(b"no")
    for arguments, message in (
        ([bundle], "exits on noise mean nothing: name images with --data NAME or --images FOLDER"),
        ([bundle, "--noise", "--data", "digits"], "give one of --data, --images and --noise"),
        ([bundle, "--images", str(tmp_path / "few.npy")], "holds 2 images, 4 are needed"),
        ([bundle, "--images", str(tmp_path / "broken.npy")], "neither a folder of pictures nor a .npy"),
        ([bundle, "--noise", "--backends", "torch"], "backend must be one that can run"),
        ([bundle, "--noise", "--policies", "nobody"], "policy must be squad"),
        ([bundle, "--noise", "--rounds", "0"], "must be at least 1"),
        ([bundle, "--noise", "--out", "rows.txt"], "must end in .json or .csv"),
        ([str(tmp_path), "--noise"], "neither a run nor a bundle"),
    ):
        assert main(["bench", *arguments, *(QUICK if "--rounds" not in arguments else [])]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line
    assert not (run / "bundle" / "costs.json").exists()


def test_one_image_is_enough_for_batches_of_one(run, tmp_path, capsys):
    np.save(tmp_path / "one.npy", np.zeros((1, 8, 8, 1), np.uint8))
    arguments = ["--images", str(tmp_path / "one.npy"), "--batches", "1", "--rounds", "1", "--threads", "1", "--dry"]
    assert main(["bench", str(run / "bundle"), *arguments, "--backends", "onnxruntime", "--cache", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "batches of 1, 1 images a round" in printed
    assert "Fastest at batches of 1 on onnxruntime" in printed


def test_noise_says_what_branches_take_and_not_which_source_is_the_fastest(run, tmp_path, capsys):
    bundle = Path(shutil.copytree(run / "bundle", tmp_path / "bundle"))
    arguments = ["--noise", "--backends", "onnxruntime", "--cache", str(tmp_path / "cache"), *QUICK]
    assert main(["bench", str(bundle), *arguments]) == 0
    assert "Fastest" not in capsys.readouterr().out
    committee = quorate.load(bundle, threads=1)
    assert sorted(committee.milliseconds) == [1, 4]
    assert committee.timings[0].fastest == {}
    with pytest.warns(UserWarning, match="nobody measured here which source is the fastest"):
        quorate.load(bundle, source="auto", threads=1)


def test_noise_is_called_noise_and_a_dry_run_writes_nothing(run, tmp_path, capsys):
    arguments = ["bench", str(run / "bundle"), "--noise", "--dry", "--json", "--cache", str(tmp_path), *QUICK]
    assert main([*arguments, "--sources", "lazy"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["run_on"].startswith("noise: times of branches hold, exits and savings mean nothing")
    assert any("no recorded votes, so no pool is fitted" in note for note in document["notes"])
    assert {row["source"] for row in document["rows"]} == {"whole", "lazy"}
    assert document["rows"][0]["accuracy"] is None
    assert not (run / "bundle" / "costs.json").exists()


def test_a_run_says_itself_what_it_was_trained_on_and_what_its_votes_are(tmp_path, capsys):
    from quorate.nets import DARTS_V1, DARTS_V2
    from quorate.train import record_votes
    from quorate.train.committee import build_learners

    torch.manual_seed(0)
    digits, folder = load("digits"), tmp_path / "run"
    learners = [learner.eval() for learner in build_learners([DARTS_V1, DARTS_V2], channels=2, cells=3)]
    three = InputSpec(8, 8, 3, (0.3,) * 3, (0.4,) * 3)
    Committee(learners, Rule("mean", 0.2), classes=digits.classes, inputs=three).save(folder)
    write_config(RunFolder(folder).config, {**read_config(RunFolder(folder).config), "about": {"data": "digits"}})
    RunFolder(folder).votes.parent.mkdir()
    record_votes(learners, digits, RunFolder(folder).votes)
    write_policy(Rule("mean", 0.3), tmp_path / "policy.json")
    arguments = ["--backends", "torch", "--policies", str(tmp_path / "policy.json"), "--json"]
    assert main(["bench", str(folder), *QUICK, *arguments]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["run_on"] == "8 images of digits, test part"
    assert {"own", "SQUAD", "pool", str(tmp_path / "policy.json")} <= {row["name"] for row in document["rows"]}
    assert main(["tune", str(folder), "--cost", "milliseconds", "--batch", "4", "--policies", "static"]) == 0
    assert "Milliseconds of torch on" in capsys.readouterr().out
    assert main(["replay", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["costs"]["milliseconds"] > 0
