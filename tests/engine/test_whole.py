import numpy as np
import pytest
import torch

import quorate
from quorate.engine import Committee, InputSpec
from quorate.engine.bench import Contender, bench, plain_vote
from quorate.engine.contenders import EndToEnd, available_backends, open_contender
from quorate.engine.timing import interleaved
from quorate.engine.whole import whole_learners
from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner
from quorate.squad import Cascade, Confidence, Priced, Rule, Static, Wish, replay
from quorate.store.timings import Timing, this_machine
from tests.engine.learners import tiny_committee, tiny_learner

SPEC = InputSpec(8, 8, 3, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def pictures(n):
    return np.random.default_rng(0).integers(0, 256, size=(n, 8, 8, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def darts():
    torch.manual_seed(0)
    exits = [(1, 2), (2,)]
    cells = zip((DARTS_V2, DARTS_V1), exits, strict=True)
    learners = [DartsLearner(g, channels=2, cells=3, classes=3, exits=at).eval() for g, at in cells]
    return Committee(learners, Rule("mean", 0.35), inputs=SPEC)


@pytest.fixture(scope="module")
def saved(darts, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run"
    darts.save(path)
    return path


def test_a_saved_committee_is_loaded_as_it_was(darts, saved):
    loaded = quorate.load(saved)
    assert (loaded.policy, loaded.classes, loaded.inputs) == (darts.policy, darts.classes, darts.inputs)
    np.testing.assert_array_equal(loaded.macs, darts.macs)
    answer, wanted = loaded(pictures(5)), darts(pictures(5))
    np.testing.assert_array_equal(answer.probs, wanted.probs)
    assert (saved / "learners/0/genotype.json").is_file()
    with pytest.raises(ValueError, match="the run must be a new or an empty folder"):
        darts.save(saved)


def test_what_was_tuned_and_measured_is_saved_too(tmp_path):
    learners, macs = tiny_committee(0, [2, 1, 2])
    timing = Timing("torch", "cpu", torch.get_num_threads(), {1: macs * 2}, this_machine())
    committee = Committee(learners, Priced(Rule("mean", 0.5), macs + 1), macs, timings=[timing])
    committee.save(tmp_path / "run")
    loaded = quorate.load(tmp_path / "run", build=lambda k: tiny_learner([2, 1, 2][k], 3))
    assert loaded.policy == committee.policy
    np.testing.assert_array_equal(loaded.milliseconds[1], macs * 2)
    images = torch.randn(9, 5)
    np.testing.assert_array_equal(loaded(images).exit, committee(images).exit)


def test_only_learners_of_torch_are_saved(darts, tmp_path):
    other = Committee(darts.networks, Static(), darts.macs)
    with pytest.raises(ValueError, match="only a committee of torch learners can be saved"):
        other.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["lazy", "eager"])
@pytest.mark.parametrize("n", [1, 40])
def test_a_policy_tuned_in_milliseconds_asks_in_their_order_whatever_the_source(source, n):
    learners, macs = tiny_committee(3, [2, 2, 2])
    table = macs[:, [2, 0, 1]] + np.array([[0.5, 0, 0.25]])
    policy = Priced(Rule("mean", 0.6), table)
    committee = Committee(learners, policy, macs, source=source)
    images = torch.randn(n, 5)
    votes = committee.record(images, np.zeros(n))
    wanted, answer = replay(votes.probs, macs, policy), committee(images)
    for name in ("label", "exit", "pivot", "lazy_macs", "eager_macs"):
        np.testing.assert_array_equal(getattr(answer, name), getattr(wanted, name), err_msg=name)


def test_a_committee_is_tuned_in_the_milliseconds_that_it_knows():
    learners, macs = tiny_committee(1, [2, 2, 2])
    cheap = np.where(np.arange(3) == 1, 0.1, 10.0) * np.ones((2, 1))
    timing = Timing("torch", "cpu", torch.get_num_threads(), {1: cheap, 32: cheap[:, ::-1]}, this_machine())
    committee = Committee(learners, Rule("mean", 0.5), macs, timings=[timing])
    images = torch.randn(200, 5)
    labels = committee.with_policy(Static())(images).label
    wish = Wish(max_drop=100, cost="milliseconds")
    tuned = committee.tune(images, labels, wish, policies=["cascade"])
    answer = tuned(images)
    assert isinstance(tuned.policy, Priced)
    assert answer.branches.sum(0).argmax() == 1  # the learner that costs a hundredth of the others
    assert (answer.branches * macs).sum() == answer.lazy_macs.sum()
    with pytest.raises(ValueError, match="these votes hold no milliseconds"):
        Committee(learners, Static(), macs).tune(images, labels, wish)
    with pytest.raises(ValueError, match=r"timings must be of \[2, 3\] branches, got \[1, 1\]"):
        Committee(learners, Static(), macs, timings=[Timing("torch", "cpu", 1, {1: [[1.0]]})])


def last_votes(committee, images):
    votes = committee.record(images, np.zeros(len(images)))
    return votes.probs[-1].mean(0)


def test_whole_networks_say_what_the_last_exits_say(darts):
    whole = Committee(whole_learners(darts.learners), Static(), [[1, 1]], inputs=SPEC)
    for networks in (whole, Committee(EndToEnd(darts.networks), Static(), [[1, 1]], inputs=SPEC)):
        found = plain_vote(networks, pictures(4), range(2))
        np.testing.assert_allclose(found, last_votes(darts, pictures(4)), atol=1e-6)
    kinds = [type(module).__name__ for module in whole.networks._learners[0].modules()]
    assert kinds.count("MapHead") == 1


def test_of_a_cascade_the_last_model_is_the_whole():
    learners, macs = tiny_committee(0, [2, 2], chained=False)
    committee = Committee(learners, Static(), macs)
    whole = Committee(whole_learners(committee.learners), Static(), [[1, 1]])
    images = torch.randn(4, 5)
    np.testing.assert_allclose(plain_vote(whole, images, range(2)), last_votes(committee, images), atol=1e-6)


def test_graphs_are_joined_without_their_early_heads(darts, saved, tmp_path):
    import onnx

    one = open_contender(saved, "onnxruntime", threads=1, cache=tmp_path)
    again = open_contender(saved, "onnxruntime", threads=1, cache=tmp_path)
    assert one.joined
    assert again.joined
    assert one.whole.macs.tolist() == [darts.macs.sum(0).tolist()]
    found = plain_vote(one.whole, pictures(3), range(2))
    np.testing.assert_allclose(found, last_votes(darts, pictures(3)), atol=1e-5)
    (place,) = tmp_path.glob("*/whole")
    for k in range(2):
        nodes = onnx.load(place / f"whole_{k}.onnx").graph.node
        assert [node.op_type for node in nodes].count("Gemm") == 1

    (place / "whole_1.onnx").write_bytes(b"no")
    with pytest.warns(RuntimeWarning, match="the cache is damaged and made anew: .*whole_1.onnx"):
        open_contender(saved, "onnxruntime", threads=1, cache=tmp_path)


def test_without_the_package_that_joins_graphs_branches_run_end_to_end(saved, tmp_path, monkeypatch):
    bundle = tmp_path / "bundle"
    quorate.load(saved).export(bundle)
    monkeypatch.setattr("quorate.engine.contenders.find_spec", lambda name: None if name == "onnx" else object())
    one = open_contender(bundle, "onnxruntime", threads=1, cache=tmp_path / "other")
    assert not one.joined
    assert plain_vote(one.whole, pictures(3), range(2)).shape == (3, 3)


def test_backends_are_those_that_can_run_it_here(saved, tmp_path):
    assert available_backends(saved)[:2] == ["torch", "onnxruntime"]
    with pytest.raises(ValueError, match="backend must be one that can run .* here"):
        open_contender(saved, "abacus", threads=1)
    with pytest.raises(ValueError, match="here, none: got torch"):
        open_contender(tmp_path, "torch", threads=1)


def test_everybody_has_a_turn_in_every_round():
    seen = []
    jobs = {name: [lambda name=name: seen.append(name)] for name in "abc"}
    taken = interleaved(jobs, rounds=2)
    assert seen == list("abc" + "abc" + "bca")
    assert all(times.shape == (2, 1) for times in taken.values())


def test_savings_are_those_of_the_same_images(darts):
    clock = iter(np.arange(10**6))
    whole = Committee(whole_learners(darts.learners), Static(), darts.macs.sum(0)[None], inputs=SPEC)
    found = bench(
        [Contender("torch", darts, whole)], pictures(6), np.zeros(6), policies={"one": Confidence(1, 0.0)},
        cascade=Cascade(0.0), batches=[1, 3], rounds=2, calls=6, clock=lambda: float(next(clock)),
    )  # fmt: skip
    assert found.images == {1: 6, 3: 6}
    names = ["static ensemble", "learner 0", "learner 1", "cascade of whole learners", "one", "one"]
    assert [row.name for row in found.rows] == names * 2
    for size, table in found.branches["torch"].items():
        np.testing.assert_allclose(table[darts.networks.present], 1000 / size)  # the clock ticks once a call
        assert table[0, 1] == 0
    static, _, second, cheapest, one, _ = found.rows[:6]
    assert (static.saved_time, static.saved_macs, static.time_per_macs) == (0, 0, None)
    assert second.macs == one.macs == darts.macs[:, 1].sum()
    assert cheapest.macs == darts.macs.sum(0).min()
    assert one.predicted == 1000  # a single branch, run for every image, takes one tick
    assert one.saved_macs == 1 - one.macs / static.macs
    assert one.realised is None  # here a branch takes as long as the ensemble: nothing is promised
    answer = darts.with_policy(Confidence(1, 0.0))(pictures(6))
    assert one.accuracy == (answer.label == 0).mean()
