import json

import numpy as np
import pytest
import torch

import quorate
from quorate.cli import main
from quorate.data import load
from quorate.errors import QuorateError
from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner, macs_table
from quorate.squad import Confidence, Rule
from quorate.store import write_policy
from quorate.store.run import CommitteeRecord, InputSpec, LearnerRecord, RunFolder, write_committee
from quorate.store.weights import write_weights
from quorate.train.committee import build_learners, train_committee
from quorate.train.config import Training
from tests.engine.learners import tiny_learner

SPEC = InputSpec(8, 8, 3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def write_run(folder, learners, networks, macs, policy):
    records = []
    for k, (learner, network) in enumerate(zip(learners, networks, strict=True)):
        place = RunFolder(folder).weights(k)
        place.parent.mkdir(parents=True)
        write_weights(place, {name: x.numpy() for name, x in learner.state_dict().items()})
        records.append(LearnerRecord(f"learner {k}", network, SPEC, f"learners/{k}/weights.safetensors", {}))
    table = tuple(tuple(row) for row in macs)
    classes = tuple(f"class {c}" for c in range(learners[0].classes))
    write_committee(RunFolder(folder).committee, CommitteeRecord(policy, table, classes, tuple(records)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("run")
    learners, networks = [], []
    for genotype in (DARTS_V2, DARTS_V1):
        learners.append(DartsLearner(genotype, channels=2, cells=3, classes=3, exits=[1, 2]).eval())
        edges = {"normal": [list(e) for e in genotype.normal], "reduce": [list(e) for e in genotype.reduce]}
        sizes = {"channels": 2, "cells": 3, "classes": 3, "exits": [1, 2], "stem": "cifar"}
        networks.append({"kind": "darts", "genotype": edges, **sizes})
    fresh = [DartsLearner(g, channels=2, cells=3, classes=3, exits=[1, 2]) for g in (DARTS_V2, DARTS_V1)]
    write_run(folder, learners, networks, macs_table(fresh, (3, 8, 8)), Rule("mean", 0.5))
    return folder, learners


def test_a_run_answers_as_its_learners_do(run):
    folder, learners = run
    committee = quorate.load(folder)
    pixels = np.random.default_rng(0).random((5, 3, 8, 8)).astype(np.float32)
    x = (torch.tensor(pixels) - torch.tensor(SPEC.mean)[:, None, None]) / torch.tensor(SPEC.std)[:, None, None]
    votes = committee.record(pixels, np.zeros(5))
    for k, learner in enumerate(learners):
        for e, logits in enumerate(learner(x)):
            np.testing.assert_allclose(votes.probs[e, k], torch.softmax(logits.detach(), 1).numpy(), atol=1e-5)
    assert committee.classes == ("class 0", "class 1", "class 2")
    assert committee.policy == Rule("mean", 0.5)


def test_info_of_a_run(run, capsys):
    assert main(["info", str(run[0]), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["exits"], len(document["learners"])) == ("run", 2, 2)
    assert main(["info", str(run[0])]) == 0
    assert "learner 0 (darts)" in capsys.readouterr().out


def test_a_trained_run_keeps_the_accuracy_that_it_wrote(tmp_path):
    data = load("digits")
    learners = build_learners([DARTS_V2, DARTS_V1], channels=2, cells=3)
    trained = train_committee(learners, data, Training(epochs=1, batch=256), tmp_path, threads=1)
    committee = quorate.load(tmp_path)
    votes = committee.record(data.test_images, data.test_labels)
    for k, one in enumerate(trained.learners):
        live = (votes.probs[:, k].argmax(-1) == votes.labels).mean(1)
        np.testing.assert_allclose(live, one.accuracy["test"], atol=2 / len(votes.labels))


def test_a_run_is_exported_and_the_bundle_answers_alike(run, tmp_path, capsys):
    folder, _ = run
    write_policy(Confidence(1, 0.4), tmp_path / "policy.json")
    arguments = ["export", str(folder), str(tmp_path / "bundle"), "--policy", str(tmp_path / "policy.json")]
    assert main(arguments) == 0
    assert "largest difference" in capsys.readouterr().out
    loaded = quorate.load(tmp_path / "bundle", threads=1)
    pixels = np.random.default_rng(0).integers(0, 256, size=(6, 8, 8, 3), dtype=np.uint8)
    wanted = quorate.load(folder).with_policy(Confidence(1, 0.4))(pixels)
    np.testing.assert_array_equal(loaded(pixels).exit, wanted.exit)
    np.testing.assert_allclose(loaded(pixels).probs, wanted.probs, atol=1e-5)
    write_policy(Confidence(5, 0.4), tmp_path / "policy.json")
    assert main([*arguments[:2], str(tmp_path / "other"), *arguments[3:]]) == 2
    assert "learner must lie in 0 to 1, got 5" in capsys.readouterr().err


def test_networks_of_the_users_own_are_brought_along(tmp_path):
    torch.manual_seed(0)
    own = tiny_learner(2, 3, features=8).eval()
    write_run(tmp_path, [own], [{"kind": "own", "type": "Tiny", "exits": 2}], [[1.0], [1.0]], Rule("mean", 0.5))
    with pytest.raises(QuorateError, match="learner 0 is a network of the user's own.*pass build="):
        quorate.load(tmp_path)
    committee = quorate.load(tmp_path, build=lambda k: tiny_learner(2, 3, features=8))
    ours, theirs = committee.learners[0].state_dict(), own.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    with pytest.raises(QuorateError, match="learners/0"):
        quorate.load(tmp_path, build=lambda k: tiny_learner(2, 3, features=9))


def test_what_does_not_fit_a_run_is_refused(run, tmp_path):
    folder, _ = run
    with pytest.raises(ValueError, match="backend must be 'torch' or None for a run"):
        quorate.load(folder, backend="onnxruntime")
    with pytest.raises(ValueError, match="threads are for bundles"):
        quorate.load(folder, threads=1)
    (tmp_path / "committee.json").write_text(json.dumps({"schema": "app"}))
    with pytest.raises(QuorateError, match="is JSON, but not of the schema"):
        quorate.load(tmp_path)
