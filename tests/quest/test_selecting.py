"""Selectors on predictions that are known."""

import numpy as np
import pytest
import torch
from tests.quest.cases import TINY

from quorate.nets import DARTS_V1, DARTS_V2
from quorate.quest.scoring import Scorer, joint_log_likelihood, row_for
from quorate.quest.selecting import Problem, selectors
from quorate.quest.supernet import TABLE, Supernet

LABELS = np.arange(60) % 3


def predict(genotypes):
    """Some answer from the genotype alone, always the same."""
    found = []
    for one in genotypes:
        rng = np.random.default_rng(abs(hash(one.canonical().to_json())) % 2**32)
        found.append(rng.dirichlet([1.0] * 3, size=(2, 60)))
    return np.stack(found, axis=1).astype(np.float32)


def problem(logits=None, learners=3, **changes):
    logits = torch.zeros(TABLE) if logits is None else logits
    return Problem(logits, learners, predict, LABELS, TINY.model_copy(update=changes))


@pytest.mark.parametrize("name", sorted(selectors()))
@pytest.mark.parametrize("learners", [1, 3])
def test_every_selector_gives_distinct_genotypes_the_same_each_time(name, learners):
    one, other = (selectors()[name](problem(learners=learners)) for _ in range(2))
    assert one == other
    assert len(set(one)) == learners
    if name != "mode":
        assert selectors()[name](problem(learners=learners, seed=1)) != one


def test_the_mode_is_the_strongest_and_its_neighbours():
    logits = torch.randn(TABLE, generator=torch.Generator().manual_seed(0))
    logits[..., 4] += 9
    first, *others = selectors()["mode"](problem(logits))
    assert {name for name, _ in first.normal + first.reduce} == {"sep_conv_3x3"}
    assert all(len(set(first.canonical().normal) ^ set(o.canonical().normal)) <= 2 for o in others)


def test_svgd_keeps_the_round_with_the_lowest_joint_loss():
    rounds = problem(rounds=6)
    best = selectors()["svgd"](rounds)
    kept = joint_log_likelihood(predict(best), LABELS)
    for number in range(6):
        from quorate.quest.selecting import particles_to_genotypes

        one = particles_to_genotypes(rounds.logits.double(), 3, rounds.generator(0, number), steps=TINY.svgd_steps)
        assert joint_log_likelihood(predict(one), LABELS) <= kept


def test_greedy_adds_what_is_best_and_its_dial_buys_disagreement():
    plain, apart = (selectors()["greedy"](problem(pool=20, ppd_weight=w)) for w in (0.0, 1000.0))
    rows = [row_for(predict(one), LABELS, [1, 1, 1]) for one in (plain, apart)]
    assert rows[0].loss < rows[1].loss
    assert sum(rows[0].ppd) < sum(rows[1].ppd)


def test_the_joint_likelihood_is_that_of_averaged_probabilities_summed_over_exits():
    probs = predict([DARTS_V1, DARTS_V2])
    wanted = np.mean([
        sum(np.log((probs[e, 0, n, label] + probs[e, 1, n, label]) / 2) for e in range(2))
        for n, label in enumerate(LABELS)
    ])  # fmt: skip
    assert joint_log_likelihood(probs, LABELS) == pytest.approx(wanted, rel=1e-5)


def test_a_scorer_asks_once_and_leaves_the_supernet_as_it_was():
    torch.manual_seed(0)
    net, kept = Supernet(2, 3, 3), {}
    images = [torch.randn(16, 3, 8, 8) for _ in range(2)]
    scorer = Scorer(net, images, images, np.zeros(32, np.int64), kept)
    before = net.chosen(images[0], [[4] * 14] * 2)
    first = scorer([DARTS_V1, DARTS_V2])
    assert set(kept) == {DARTS_V1, DARTS_V2}
    after = net.chosen(images[0], [[4] * 14] * 2)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert net.training
    kept[DARTS_V1] = kept[DARTS_V1] * 0
    assert not scorer([DARTS_V1]).any()
    assert (scorer([DARTS_V2])[:, 0] == first[:, 1]).all()


def test_predictions_do_not_depend_on_who_else_is_in_the_batch():
    torch.manual_seed(0)
    net = Supernet(2, 3, 3)
    images = torch.randn(24, 3, 8, 8)
    whole = Scorer(net, [images], [images], np.zeros(24, np.int64), {})([DARTS_V2])
    parts = Scorer(net, [images], list(images.split(5)), np.zeros(24, np.int64), {})([DARTS_V2])
    assert np.allclose(whole, parts, atol=1e-5)
