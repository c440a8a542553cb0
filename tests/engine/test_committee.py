import threading
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.engine import Committee, InputSpec
from quorate.engine.torch_networks import TorchNetworks
from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner, cascade, random_genotype
from quorate.nets.learner import Learner
from quorate.squad import Confidence, Rule, Static, Wish, replay
from tests.engine.cases import policies
from tests.engine.learners import near, tiny_committee, tiny_learner
from tests.squad.cases import Case

SPEC = InputSpec(16, 16, 3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def assert_agrees(answer, votes, policy):
    """A live answer and the replayed one; returns how many samples were on the edge."""
    wanted = replay(votes.probs, votes.macs, policy, present=votes.present, chained=votes.chained)
    differ = np.zeros(len(votes.labels), bool)
    for name in ("label", "exit", "passed", "lazy_macs", "eager_macs", "free_running_macs", "free_running_energy"):
        differ |= getattr(answer, name) != getattr(wanted, name)
    differ |= (answer.pivot != wanted.pivot).any(0) | (answer.reached != wanted.reached).any(0)
    on_edge = near(votes, policy) if differ.any() else differ
    assert not (differ & ~on_edge).any()
    same = ~differ
    np.testing.assert_allclose(answer.confidence[same], wanted.confidence[same], atol=1e-5)
    np.testing.assert_allclose(answer.probs[same], wanted.probs[same], atol=1e-5)
    for name in ("parallel_macs", "parallel_energy"):
        np.testing.assert_array_equal(getattr(answer, name)[same], getattr(wanted, name)[same])
    assert (answer.branches * votes.macs).sum() == answer.lazy_macs.sum()
    return int(differ.sum())


def replayed_labels(votes, policy):
    try:
        return replay(votes.probs, votes.macs, policy, present=votes.present, chained=votes.chained).label
    except ValueError:
        return np.full(len(votes.labels), -1)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**16), st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 300), st.booleans(),
    st.integers(2, 5), st.data(),
)  # fmt: skip
def test_answers_are_those_of_replay_on_the_recorded_votes(seed, exits, n, chained, classes, data):
    learners, macs = tiny_committee(seed, exits, classes, chained)
    images = torch.randn(n, 5, generator=torch.Generator().manual_seed(seed))
    policy = data.draw(policies(Case(np.empty((*macs.shape, n, classes)), macs, None, None)))
    committee = Committee(learners, policy, macs)
    votes = committee.record(images, np.zeros(n))
    if (replayed_labels(votes, policy) < 0).all():
        with pytest.raises(ValueError, match="none of the"):
            committee(images)
        return
    answer = committee(images)
    assert assert_agrees(answer, votes, policy) <= 1
    assert answer.faults == ()


@pytest.fixture(scope="module")
def darts():
    torch.manual_seed(0)
    cells = [DARTS_V2, DARTS_V1, random_genotype(np.random.default_rng(3))]
    exits = [(2, 5, 7), (5, 7), (2, 5, 7)]
    learners = [DartsLearner(g, channels=4, cells=8, classes=4, exits=at) for g, at in zip(cells, exits, strict=True)]
    for learner in learners:
        learner.train()
        with torch.no_grad():
            for _ in range(3):
                learner(torch.randn(16, 3, 16, 16))  # batch norms that have seen something
        for name, weights in learner.named_parameters():
            if name.endswith("norm.weight"):
                torch.nn.init.uniform_(weights, 0.5, 2)
    return [learner.eval() for learner in learners]


def pictures(n, seed=0):
    return np.random.default_rng(seed).integers(0, 256, size=(n, 16, 16, 3), dtype=np.uint8)


@pytest.mark.parametrize("source", ["lazy", "eager"])
def test_networks_of_the_darts_space_with_different_numbers_of_exits(darts, source):
    committee = Committee(darts, Static(), inputs=SPEC, source=source)
    votes = committee.record(pictures(40), np.zeros(40))
    committee = committee.with_policy(Confidence(0, float(np.median(votes.probs[0, 0].max(1)))))
    answer = committee(pictures(40))
    assert 5 < (answer.exit == 0).sum() < 35
    if source == "lazy":
        assert_agrees(answer, votes, committee.policy)
        for policy in (Rule("mean", 0.4), Rule(threshold=0.2), Static()):
            assert_agrees(committee.with_policy(policy)(pictures(40)), votes, policy)
    else:
        assert (answer.branches * committee.macs).sum() == answer.eager_macs.sum()


def test_folded_learners_say_what_they_said(darts):
    x = torch.randn(3, 3, 16, 16)
    for learner in darts:
        networks = TorchNetworks([learner])
        state = networks._learners[0].first_state(x)
        for e, wanted in enumerate(learner(x)):
            state, probs = networks.run(0, e, state)
            np.testing.assert_allclose(probs, torch.softmax(wanted.detach(), 1).numpy(), atol=1e-5)
        names = [type(module).__name__ for module in networks._learners[0].modules()]
        assert "BatchNorm2d" not in names


def test_a_snapshot_is_taken(darts):
    committee = Committee(darts, Static(), inputs=SPEC)
    before = committee(pictures(4)).probs
    with torch.no_grad():
        weight = darts[0].branches[-1].head.linear.weight if hasattr(darts[0].branches[-1].head, "linear") else None
        parameter = weight if weight is not None else next(darts[0].parameters())
        parameter.add_(1.0)
        after = committee(pictures(4)).probs
        parameter.sub_(1.0)
    np.testing.assert_array_equal(before, after)


def test_batches_that_are_cut_and_joined_keep_their_layout(darts):
    networks = TorchNetworks(darts[:1])
    state, _ = networks.run(0, 0, networks._learners[0].first_state(torch.randn(6, 3, 16, 16)))
    parts = [networks.take(state, np.array([4, 1])), networks.take(state, np.array([0]))]
    for whole, joined in zip(state, networks.join(parts), strict=True):
        assert torch.equal(whole[[4, 1, 0]], joined)
        assert joined.is_contiguous(memory_format=torch.channels_last) == whole.is_contiguous(
            memory_format=torch.channels_last
        )


class Broken(Learner):
    def __init__(self, kind):
        super().__init__(tiny_learner(2, 3).branches, 3)
        self.branches[1] = Breaking(kind)


class Breaking(torch.nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x):
        if self.kind == "raises":
            raise RuntimeError("no memory left")
        return (torch.full((len(x), 3), float(self.kind)),)


@pytest.mark.parametrize("kind", ["raises", "nan", "inf"])
def test_a_failing_learner_abstains_with_a_warning(kind):
    torch.manual_seed(0)
    learners = [tiny_learner(2, 3), Broken(kind), tiny_learner(2, 3)]
    committee = Committee(learners, Rule("mean", 0.999), np.ones((2, 3)))
    with pytest.warns(RuntimeWarning, match="learner 1 failed at exit 1"):
        answer = committee(torch.randn(7, 5))
    (fault,) = answer.faults
    assert (fault.samples, fault.ran) == (7, (0, 7))
    assert (answer.branches * committee.macs).sum() == answer.lazy_macs.sum()
    with pytest.warns(RuntimeWarning):
        votes = committee.record(torch.randn(7, 5), np.zeros(7))
    assert not votes.present[1, 1].any()


def test_only_a_call_that_nobody_could_answer_is_an_error():
    committee = Committee([Broken("raises")], Static(), np.ones((2, 1)))
    with (
        pytest.warns(RuntimeWarning),
        pytest.raises(ValueError, match="none of the 3 samples could be answered: .*no memory left"),
    ):
        committee(torch.randn(3, 5))


def test_no_samples_are_no_error():
    learners, macs = tiny_committee(0, [2, 2])
    answer = Committee(learners, Rule("mean", 0.5), macs)(torch.empty(0, 5))
    assert answer.label.shape == (0,)
    assert answer.branches.sum() == 0


def test_many_threads_may_call_one_committee():
    learners, macs = tiny_committee(0, [3, 3, 2])
    committee = Committee(learners, Rule("mean", 0.7), macs)
    batches = [torch.randn(20 + i, 5, generator=torch.Generator().manual_seed(i)) for i in range(8)]
    alone = [committee(batch) for batch in batches]
    found = [None] * 8

    def call(i):
        for _ in range(5):
            found[i] = committee(batches[i])

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one.label, other.label)
        np.testing.assert_array_equal(one.branches, other.branches)


def test_stream_answers_batch_after_batch_and_asks_for_no_more():
    learners, macs = tiny_committee(0, [2, 2])
    taken = []

    def batches():
        for i in range(5):
            taken.append(i)
            yield torch.randn(3, 5)

    stream = Committee(learners, Rule("mean", 0.5), macs).stream(batches())
    next(stream)
    assert taken == [0]


def test_tuning_keeps_the_networks_and_says_what_it_promises():
    learners, macs = tiny_committee(1, [2, 2, 2])
    committee = Committee(learners, Rule("mean", 0.5), macs)
    images = torch.randn(300, 5)
    labels = committee.with_policy(Static())(images).label
    tuned = committee.tune(images, labels, Wish(max_drop=5), policies=["squad", "pool"])
    assert tuned.networks is committee.networks
    assert committee.tuned is None
    assert tuned.tuned.cost <= tuned.tuned.static_cost
    answer = tuned(images)
    assert_agrees(answer, tuned.record(images, labels), tuned.policy)


def test_inputs_by_name():
    class Sum(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)

        def forward(self, a, b):
            return self.linear(a + b)

    torch.manual_seed(0)
    learner = cascade([Sum()], classes=3, inputs=["a", "b"])
    committee = Committee([learner], Static(), [[12]])
    a, b = torch.randn(5, 4), torch.randn(5, 4)
    by_name, by_place = committee({"b": b, "a": a}), committee((a, b))
    np.testing.assert_array_equal(by_name.probs, by_place.probs)


def test_counted_costs_are_those_of_the_learners(darts):
    committee = Committee(darts, Static(), inputs=SPEC)
    assert committee.macs.shape == (3, 3)
    assert (committee.macs[0] == 0).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"macs": None}, "macs can be counted where learners and inputs are given"),
        ({"classes": ["a"]}, "classes must name 3 classes, got 1"),
        ({"source": "greedy"}, "source must be one of lazy, eager"),
        ({"inputs": [None]}, "one for each of 2 learners, got 1"),
        ({"macs": [[1, 1], [1, 0]]}, None),
        ({"macs": [[1, 1]]}, "macs must be"),
    ],
)
def test_what_does_not_fit_is_refused(change, message):
    learners, macs = tiny_committee(0, [2, 2])
    arguments = {"macs": macs, **change}
    if message is None:
        Committee(learners, Rule("mean"), **arguments)
        return
    with pytest.raises(ValueError, match=message):
        Committee(learners, Rule("mean"), **arguments)


def test_costs_where_there_is_no_branch_are_refused():
    learners, _ = tiny_committee(0, [2, 1])
    with pytest.raises(ValueError, match="macs must be 0 where a learner has no branch"):
        Committee(learners, Rule("mean"), np.ones((2, 2)))


def test_cascades_beside_chained_learners_are_refused():
    with pytest.raises(ValueError, match="all carry features on or all be cascades"):
        Committee([tiny_learner(2, 3), cascade([torch.nn.Linear(5, 3)] * 2)], Rule("mean"), np.ones((2, 2)))


def test_nothing_is_warned_of_where_nothing_fails(darts):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Committee(darts, Rule(threshold=0.5), inputs=SPEC)(torch.rand(3, 3, 16, 16))
