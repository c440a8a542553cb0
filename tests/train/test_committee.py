import json

import numpy as np
import pytest
import torch
from tests.train.cases import QUICK, darts, linear, same, state_of, toy
from torch import nn

from quorate.errors import QuorateError
from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner, Genotype, cascade, count_macs
from quorate.squad import Rule, replay
from quorate.store import read_votes
from quorate.store.run import InputSpec, read_committee, read_config
from quorate.train import build_learners, load_learners, record_votes, train_committee


def pair(seed=0):
    return build_learners([DARTS_V2, DARTS_V1], channels=2, cells=3, classes=2, seed=seed)


def test_a_run_is_all_that_is_needed_to_load_and_to_call(tmp_path):
    learners, data = pair(), toy()
    told = train_committee(learners, data, QUICK, tmp_path, names=["a", "b"], threads=1, about={"why": "a test"})
    loaded, record = load_learners(tmp_path)
    assert record == told == read_committee(tmp_path / "committee.json")
    for one, other in zip(learners, loaded, strict=True):
        assert same(state_of(one), state_of(other))
        assert not other.training
    assert [one.name for one in record.learners] == ["a", "b"]
    assert record.policy == Rule()
    assert record.classes == data.classes
    assert record.learners[0].input.mean == pytest.approx(data.mean * 3)
    assert [row[1] for row in record.macs] == list(count_macs(learners[1], (3, 8, 8)))
    votes = record_votes(loaded, data, tmp_path / "votes.safetensors")
    outcome = replay(votes.of("test").probs, votes.macs, record.policy)
    assert (outcome.label >= 0).all()
    right = (votes.of("test").probs.argmax(-1) == votes.of("test").labels).mean(-1)
    assert right[:, 0].tolist() == pytest.approx(record.learners[0].accuracy["test"])


def test_the_configuration_tells_how_to_repeat_it(tmp_path):
    train_committee(pair(), toy(), QUICK, tmp_path, threads=1, about={"why": "a test"})
    config = read_config(tmp_path / "config.json")
    assert config["training"] == QUICK.model_dump(mode="json")
    assert set(config["versions"]) == {"quorate", "python", "torch", "numpy"}
    assert set(config["splits"]) == {"train", "calibration", "search_train", "search_validation"}
    assert (config["seed"], config["about"]) == (0, {"why": "a test"})
    assert Genotype.from_json((tmp_path / "learners/1/genotype.json").read_text()) == DARTS_V1


def test_jobs_in_processes_give_the_same_bits(tmp_path):
    here, apart = pair(), pair()
    train_committee(here, toy(), QUICK, tmp_path / "here", threads=1)
    told = []
    train_committee(apart, toy(), QUICK, tmp_path / "apart", jobs=2, threads=2, listen=told.append)
    assert all(same(state_of(one), state_of(other)) for one, other in zip(here, apart, strict=True))
    assert {one.learner for one in told} == {0, 1}


def test_it_goes_on_where_it_stopped(tmp_path):
    class StoppedError(Exception):
        pass

    def stop(told):
        if told.learner == 1:
            raise StoppedError

    with pytest.raises(StoppedError):
        train_committee(pair(), toy(), QUICK, tmp_path, threads=1, listen=stop)
    assert (tmp_path / "learners/0/weights.safetensors").exists()
    assert not (tmp_path / "committee.json").exists()
    again, whole = pair(), pair()
    told = []
    train_committee(again, toy(), QUICK, tmp_path, threads=1, listen=told.append)
    train_committee(whole, toy(), QUICK, tmp_path / "whole", threads=1)
    assert {one.learner for one in told} == {1}
    assert all(same(state_of(one), state_of(other)) for one, other in zip(again, whole, strict=True))


def test_another_run_in_the_same_folder_is_refused(tmp_path):
    train_committee([linear()], toy(), QUICK, tmp_path, threads=1)
    with pytest.raises(QuorateError, match="holds another run .*epochs was 2, is 3"):
        train_committee([linear()], toy(), QUICK.model_copy(update={"epochs": 3}), tmp_path)
    with pytest.raises(QuorateError, match="its learners are others"):
        train_committee([linear(), linear()], toy(), QUICK, tmp_path)
    train_committee([linear()], toy(), QUICK.model_copy(update={"checkpoint_seconds": 5.0}), tmp_path)


def test_networks_of_the_users_own_must_be_brought_along(tmp_path):
    model = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    mixed = [cascade([model]), darts()]
    inputs = [InputSpec(16, 16, 1, (0.5,), (0.25,)), InputSpec(8, 8, 3, (0.5,) * 3, (0.25,) * 3)]
    train_committee(mixed, toy(), QUICK, tmp_path, inputs=inputs, threads=1)
    with pytest.raises(QuorateError, match="learner 0 is a network of the user's own: bring it along"):
        load_learners(tmp_path)
    own = cascade([nn.Sequential(nn.Flatten(), nn.Linear(256, 2))])
    (first, second), record = load_learners(tmp_path, {0: own})
    assert same(state_of(first), state_of(mixed[0]))
    assert isinstance(second, DartsLearner)
    assert record.macs[0][0] == 0
    assert record.macs[1][0] == 512
    with pytest.raises(QuorateError, match="must have the shape"):
        load_learners(tmp_path, {0: linear()})


def test_votes_of_learners_with_fewer_exits_are_absent_at_the_first(tmp_path):
    one = cascade([nn.Sequential(nn.Flatten(), nn.Linear(256, 2))])
    inputs = [InputSpec(16, 16, 1, (0.5,), (0.25,)), InputSpec(8, 8, 3, (0.5,) * 3, (0.25,) * 3)]
    record_votes([one, darts()], toy(), tmp_path / "v.safetensors", ("test",), inputs=inputs)
    votes = read_votes(tmp_path / "v.safetensors")
    assert votes.present is not None
    assert votes.present[:, :, 0].tolist() == [[False, True], [True, True]]
    assert not votes.chained
    assert np.isnan(votes.probs[0, 0]).all()


def test_one_learner_has_a_rule_that_one_can_decide_by(tmp_path):
    assert train_committee([linear()], toy(), QUICK, tmp_path, threads=1).policy == Rule("mean")


def test_a_committee_whose_weights_are_damaged_is_not_loaded(tmp_path):
    train_committee([darts()], toy(), QUICK, tmp_path, threads=1)
    path = tmp_path / "learners/0/weights.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(QuorateError, match=r"weights.safetensors: is not a whole safetensors file"):
        load_learners(tmp_path)
    document = json.loads((tmp_path / "committee.json").read_text())
    document["learners"][0]["network"]["channels"] = 4
    (tmp_path / "committee.json").write_text(json.dumps(document))
    with pytest.raises(QuorateError, match="does not match its checksum"):
        load_learners(tmp_path)


def test_lists_must_be_one_for_each_learner(tmp_path):
    with pytest.raises(ValueError, match="inputs must be one for each of 1 learners, got 2"):
        train_committee([linear()], toy(), QUICK, tmp_path, inputs=[InputSpec(8, 8, 1, (0.5,), (0.5,))] * 2)
    with pytest.raises(ValueError, match="names must be one for each"):
        train_committee([linear()], toy(), QUICK, tmp_path, names=[])
    with pytest.raises(ValueError, match="splits must name at least one"):
        record_votes([linear()], toy(), tmp_path / "v", ())
    with pytest.raises(ValueError, match="a part must be train, calibration or test, got 'tset'"):
        record_votes([linear()], toy(), tmp_path / "v", ("tset",))
    with pytest.raises(ValueError, match="no images in this part"):
        record_votes([linear()], toy(), tmp_path / "v", calibration=0.0)


def test_fresh_learners_differ_and_the_framework_is_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    one, other = build_learners([DARTS_V2] * 2, channels=2, cells=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert not same(state_of(one), state_of(other))
    assert same(state_of(one), state_of(build_learners([DARTS_V2], channels=2, cells=3)[0]))
