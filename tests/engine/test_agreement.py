"""The engine against the replay of recorded votes: what rounding may do, and what nothing may."""

import numpy as np
import pytest
import torch

from quorate.engine import Committee
from quorate.engine.agreement import agreement
from quorate.errors import QuorateError
from quorate.nets import cascade
from quorate.squad import Confidence, Rule, Static, replay


@pytest.fixture(scope="module")
def case():
    torch.manual_seed(0)
    learners = [cascade([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)]) for _ in range(3)]
    committee = Committee(learners, Rule("mean", 0.45), macs=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    images = 2 * torch.randn(300, 4)
    return committee, images, committee.record(images, np.arange(300) % 3)


@pytest.mark.parametrize("policy", [Rule("mean", 0.45), Rule(threshold=0.4), Static(), Confidence(1, 0.5)])
@pytest.mark.parametrize("source", ["lazy", "eager"])
def test_both_answer_alike(case, policy, source):
    committee, images, votes = case
    outcome = replay(votes.probs, votes.macs, policy, chained=votes.chained)
    told = []
    found = agreement(
        committee.with_policy(policy, source), images, votes, outcome, batch=64,
        tell=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert (found.differing, found.unexplained) == (0, 0)
    assert found.accuracy == (outcome.label == votes.labels).mean()
    assert found.lazy_macs == pytest.approx(found.replayed_lazy_macs)
    assert found.as_counted
    assert told[-1] == (300, 300)


def test_what_half_precision_turns_is_counted_and_explained(case):
    committee, images, votes = case
    halved = votes._replace(probs=votes.probs.astype(np.float16).astype(np.float32))
    threshold = float(votes.probs[0, :2, 7].max(-1).mean())  # where a sample stands on the edge
    policy = Rule("mean", min(threshold, 0.99))
    outcome = replay(halved.probs, votes.macs, policy, chained=votes.chained)
    outcome.exit[3] = 1 - outcome.exit[3]  # as rounding may turn it
    found = agreement(committee.with_policy(policy), images, halved, outcome)
    assert found.differing >= 1
    assert found.exits >= 1
    assert found.unexplained == 0
    assert 0 < found.largest < 1e-3


def test_votes_of_other_networks_are_refused(case):
    committee, images, votes = case
    other = votes._replace(probs=votes.probs[:, ::-1].copy())
    outcome = replay(other.probs, votes.macs, committee.policy, chained=votes.chained)
    with pytest.raises(QuorateError, match="off what the networks say now"):
        agreement(committee, images, other, outcome)


def test_an_engine_that_decides_otherwise_is_a_defect(case):
    committee, images, votes = case
    outcome = replay(votes.probs, votes.macs, committee.policy, chained=votes.chained)

    class Wrong(Committee):
        def __call__(self, images):
            answer = super().__call__(images)
            return answer._replace(label=(answer.label + 1) % 3)

    wrong = Wrong(committee.networks, committee.policy, committee.macs)
    with pytest.raises(QuorateError, match="differ on 64 of 300 samples although their votes agree"):
        agreement(wrong, images[:300], votes, outcome._replace(label=(outcome.label + 1) % 3))


def test_what_ran_must_be_what_is_counted(case):
    committee, images, votes = case
    outcome = replay(votes.probs, votes.macs, committee.policy, chained=votes.chained)

    class Wasteful(Committee):
        def __call__(self, images):
            answer = super().__call__(images)
            return answer._replace(branches=answer.branches + 1)

    with pytest.raises(QuorateError, match="not those that the lazy MACs count"):
        agreement(Wasteful(committee.networks, committee.policy, committee.macs), images, votes, outcome)


def test_other_images_are_refused(case):
    committee, images, votes = case
    outcome = replay(votes.probs, votes.macs, committee.policy, chained=votes.chained)
    with pytest.raises(QuorateError, match="there are 299 images and votes on 300"):
        agreement(committee, images[:299], votes, outcome)
