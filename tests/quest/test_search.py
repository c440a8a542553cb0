"""The search as a whole: deterministic, killed at any moment, taken up, extended, warned of."""

import json
import multiprocessing as mp
import os
import random
import signal

import pytest
import torch
from tests.quest import killing
from tests.quest.cases import TINY, images

from quorate.errors import QuorateError
from quorate.nets import Genotype
from quorate.quest import SearchConfig
from quorate.quest.diagnosis import warnings_for
from quorate.quest.keeping import Kept
from quorate.quest.material import material_for
from quorate.quest.search import memory_needed, search
from quorate.quest.supernet import TABLE
from quorate.recipes import searches
from quorate.store.history import read_history
from quorate.store.search import read_genotypes, read_search

pytestmark = pytest.mark.filterwarnings("ignore:(the logits barely moved|[0-9]+ % of the kept edges)")


def find(folder, config=TINY, learners=2, selectors=("svgd",), **keywords):
    return search(images(), config, folder, learners=learners, selectors=selectors, **keywords)


def without_seconds(rows):
    return [{**row, "seconds": 0} for row in rows]


def test_killed_at_random_moments_it_finds_the_same_genotypes(tmp_path):
    wanted = killing.find(tmp_path / "whole")
    server = mp.get_context("forkserver")
    server.set_forkserver_preload(["tests.quest.killing"])
    chance, kills = random.Random(), 0
    while kills < 7:
        begun = server.Event()
        process = server.Process(target=killing.find, args=(tmp_path / "killed", begun))
        process.start()
        begun.wait(20)
        process.join(chance.uniform(0.05, 0.6))
        if process.exitcode is not None:
            break
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        kills += 1
    got = killing.find(tmp_path / "killed")
    assert kills >= 2
    assert got.genotypes == wanted.genotypes
    assert torch.equal(got.logits, wanted.logits)
    assert got.rows == wanted.rows
    assert without_seconds(got.history) == without_seconds(wanted.history)
    assert read_genotypes(tmp_path / "killed") == read_genotypes(tmp_path / "whole")


@pytest.mark.parametrize("changes", [{"relaxation": "soft"}, {"level": "bi"}, {"estimator": "straight-through"}])
def test_every_mode_is_deterministic_in_the_seed(tmp_path, changes):
    config = TINY.model_copy(update={**changes, "epochs": 1, "posterior_epochs": 1, "rounds": 1})
    found = [find(tmp_path / str(i), config.model_copy(update={"seed": seed})) for i, seed in enumerate((0, 0, 1))]
    assert torch.equal(found[0].logits, found[1].logits)
    assert found[0].genotypes == found[1].genotypes
    assert not torch.equal(found[0].logits, found[2].logits)


def test_another_selector_finds_the_phases_done_and_what_was_found_stays(tmp_path):
    first = find(tmp_path, selectors=("svgd",))
    told = []
    more = find(tmp_path, selectors=("random", "mode"), listen=lambda what, done, total: told.append(what))
    assert not {"supernet", "posterior"} & set(told)
    assert torch.equal(first.logits, more.logits)
    documents = read_genotypes(tmp_path)
    assert set(documents) == {"svgd", "random", "mode"}
    assert [Genotype(**one) for one in documents["svgd"]] == first.genotypes["svgd"]
    assert sorted(path.name for path in (tmp_path / "search/drawings").iterdir()) == [
        f"{name}-{k}.svg" for name in ("mode", "random", "svgd") for k in (0, 1)
    ]


def test_what_a_selector_may_change_does_not_make_it_another_search(tmp_path):
    find(tmp_path)
    find(tmp_path, TINY.model_copy(update={"repulsion": 2.3, "rounds": 1, "scoring_images": 8}))
    with pytest.raises(QuorateError, match=r"holds another search \(config.logit_rate was 0.1, is 0.2\)"):
        find(tmp_path, TINY.model_copy(update={"logit_rate": 0.2}))
    with pytest.raises(QuorateError, match=r"holds another search \(data"):
        search(images(120), TINY, tmp_path, learners=2)


def test_the_history_tells_what_happened(tmp_path):
    found = find(tmp_path)
    rows = read_history(tmp_path / "search/history.jsonl")
    assert rows == found.history
    assert [(row["epoch"], row["phase"]) for row in rows] == [
        (0, "supernet"), (1, "supernet"), (2, "posterior"), (3, "posterior")
    ]  # fmt: skip
    assert rows[0]["temperature"] == 1.0
    assert rows[1]["temperature"] == pytest.approx(0.03)
    for row in rows:
        assert {"loss", "accuracy", "entropy", "expected_macs", "free_share", "largest", "penalty"} <= set(row)


def test_a_damaged_prediction_is_made_again_and_a_cut_genotype_file_is_said(tmp_path):
    first = find(tmp_path)
    path = next((tmp_path / "search/predictions").iterdir())
    path.write_bytes(path.read_bytes()[:50])
    assert find(tmp_path).rows == first.rows
    (tmp_path / "search/genotypes.json").write_text("{")
    with pytest.raises(QuorateError, match="is not JSON"):
        read_genotypes(tmp_path)
    with pytest.warns(UserWarning, match="it is written anew"):
        find(tmp_path)
    assert set(read_genotypes(tmp_path)) == {"svgd"}


def test_the_entropy_falls_and_the_default_penalty_lowers_expected_macs(tmp_path):
    config = TINY.model_copy(
        update={
            "epochs": 9,
            "posterior_epochs": 0,
            "estimation_images": 1,
            "architectures": 1,
            "rounds": 1,
            "svgd_steps": 1,
        }
    )
    assert config.cost_weight == SearchConfig().cost_weight
    curves = {}
    for weight in (0.0, config.cost_weight):
        found = find(tmp_path / str(weight), config.model_copy(update={"cost_weight": weight}), selectors=("random",))
        curves[weight] = found.history
    pressed = curves[config.cost_weight]
    assert pressed[-1]["entropy"] < pressed[0]["entropy"] - 0.1
    assert pressed[-1]["expected_macs"] < 0.95 * pressed[0]["expected_macs"]
    assert pressed[-1]["expected_macs"] < 0.97 * curves[0.0][-1]["expected_macs"]


def test_nesbs_is_a_configuration(tmp_path):
    nesbs = searches.cifar10_nesbs()
    small = {name: getattr(TINY, name) for name in TINY.model_fields_set} | {"architectures": 1}
    del small["logit_rate"]
    found = find(tmp_path, nesbs.model_copy(update=small))
    assert len(found.rows["svgd"].ensemble) == 1
    assert all(row["largest"] == 0.125 for row in found.history[:2])
    assert found.history[-1]["largest"] > 0.125


def test_the_recipe_of_the_paper_has_its_numbers():
    paper = searches.cifar10_paper()
    told = (paper.epochs, paper.batch, paper.channels, paper.cells, paper.rate, paper.final_rate, paper.momentum)
    assert told == (150, 64, 16, 8, 0.025, 0.001, 0.9)
    assert (paper.weight_decay, paper.clip, paper.logit_rate, paper.logit_decay) == (3e-4, 5.0, 3e-4, 1e-3)
    assert (paper.posterior_epochs, paper.posterior_rate, paper.posterior_decay) == (20, 0.01, 3e-4)
    assert (paper.svgd_steps, paper.svgd_rate, paper.svgd_momentum, paper.rounds) == (1000, 0.1, 0.9, 10)


@pytest.mark.parametrize("name", searches.__all__)
def test_recipes_are_configurations_with_a_sentence(name):
    recipe = getattr(searches, name)
    assert isinstance(recipe(), SearchConfig)
    assert SearchConfig(**recipe().model_dump()) == recipe()
    assert recipe.__doc__


def test_warnings_carry_numbers():
    free = torch.zeros(TABLE)
    free[..., 1] = 5
    (said,) = warnings_for(free)
    assert "% of the kept edges are pools or skips" in said
    assert "0.125 on average" in warnings_for(torch.zeros(TABLE))[0]
    good = torch.zeros(TABLE)
    good[..., 4] = 5
    assert not warnings_for(good)


@pytest.mark.parametrize("changes", [{"cost_form": "linear", "cost_weight": 1e4}, {"cost_weight": 50.0}])
def test_a_penalty_that_dominates_is_warned_of_before_the_second_step(tmp_path, changes):
    def stop(what, done, total):
        raise KeyboardInterrupt

    with (
        pytest.warns(UserWarning, match=r"the penalty dominates the loss at the first step \(.* against"),
        pytest.raises(KeyboardInterrupt),
    ):
        find(tmp_path, TINY.model_copy(update=changes), listen=stop)


@pytest.mark.parametrize("epoch", range(4))
def test_killed_after_the_last_step_of_an_epoch_it_goes_on(tmp_path, epoch, monkeypatch):
    wanted, note = find(tmp_path / "whole"), Kept.note

    def killed(kept, row):
        if row["epoch"] == epoch:
            raise KeyboardInterrupt
        note(kept, row)

    monkeypatch.setattr(Kept, "note", killed)
    with pytest.raises(KeyboardInterrupt):
        find(tmp_path / "killed")
    monkeypatch.undo()
    got = find(tmp_path / "killed")
    assert got.genotypes == wanted.genotypes
    assert without_seconds(got.history) == without_seconds(wanted.history)


def test_a_supernet_made_anew_has_its_whole_history_again(tmp_path):
    first = find(tmp_path)
    (tmp_path / "search/supernet.safetensors").unlink()
    again = find(tmp_path)
    assert torch.equal(again.logits, first.logits)
    assert without_seconds(again.history) == without_seconds(first.history)


def test_settings_of_selectors_are_written_beside_their_committees(tmp_path):
    find(tmp_path)
    find(tmp_path, TINY.model_copy(update={"rounds": 1}), selectors=("random",))
    written = read_search(tmp_path)[0]
    assert [written[name]["settings"]["rounds"] for name in ("svgd", "random")] == [2, 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"selectors": ("luck",)}, "selectors must be among svgd, monte-carlo, greedy, mode, random, got luck"),
        ({"selectors": ()}, "got none"),
        ({"learners": 0}, "learners must be at least 1, got 0"),
        ({"device": "toaster"}, "device must be cpu"),
        ({"config": TINY.model_copy(update={"batch": 512})}, "at least one batch of 512 images"),
        ({"config": TINY.model_copy(update={"side": 9})}, "nearest sides"),
    ],
)
def test_what_cannot_be_is_said(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said):
        find(tmp_path, **changes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"relaxation": "soft", "estimator": "score"}, "needs one evaluated operation"),
        ({"final_rate": 1.0}, "final_rate must not be above rate"),
        ({"final_temperature": 2.0}, "final_temperature must not be above"),
        ({"surplus": 1}, "Extra inputs"),
        ({"cells": 1}, "greater than or equal to 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        SearchConfig(**given)


def test_the_papers_soft_step_fits_in_twelve_gibibytes():
    from quorate.data import from_arrays

    colour = from_arrays("toy", torch.zeros(20, 32, 32, 3, dtype=torch.uint8).numpy(), [0, 1] * 10)
    before = torch.get_rng_state()
    needed = memory_needed(colour, searches.cifar10_paper())
    assert torch.equal(before, torch.get_rng_state())
    again = memory_needed(colour, searches.cifar10_paper().model_copy(update={"recompute": True}))
    assert 3 * 2**30 < needed < 12 * 2**30
    assert again < needed / 3


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda body: body.update(selectors={}), "names no committee"),
        (lambda body: body.update(selectors={"svgd": []}), "holds no genotypes of the selector 'svgd'"),
        (lambda body: body["selectors"]["svgd"].update(row=[1]), "the row of 'svgd' must be an object"),
        (lambda body: body["selectors"]["svgd"].update(genotypes=[{}]), "must have a normal and a reduction cell"),
        (lambda body: body["selectors"]["svgd"]["genotypes"][0].update(normal=[1] * 8), "must have 8 edges"),
        (lambda body: body.update(version=9), "has schema version 9"),
    ],
)
def test_genotypes_that_were_changed_are_refused(tmp_path, change, said):
    from quorate.store.schema import checksum
    from quorate.store.search import write_genotypes

    cell = [["skip_connect", 0]] * 8
    path = tmp_path / "genotypes.json"
    write_genotypes(path, {"svgd": {"genotypes": [{"normal": cell, "reduce": cell}], "row": {}}})
    document = json.loads(path.read_text())
    change(document)
    body = {name: value for name, value in document.items() if name not in ("schema", "version", "sha256")}
    path.write_text(json.dumps({**document, "sha256": checksum(body)}))
    with pytest.raises(QuorateError, match=said):
        read_search(path)


def test_batches_for_statistics_are_of_one_size():
    material = material_for(images(300), TINY, torch.device("cpu"))
    found, labels = material.fixed(material.train, 129, 0, 0)
    assert [len(batch) for batch in found] == [65, 64]
    assert len(labels) == 129


def test_images_need_not_be_square(tmp_path):
    from quorate.data import from_arrays
    from quorate.nets import DartsLearner, count_macs

    square = images()
    wide = from_arrays("wide", square.train_images.repeat(2, axis=2), square.train_labels)
    found = find_in(wide, tmp_path)
    learner = DartsLearner(found.genotypes["svgd"][0], 2, 2, len(wide.classes), image_channels=wide.shape[2])
    height, width, channels = wide.shape
    assert width == 2 * height
    assert found.rows["svgd"].macs[0] == sum(count_macs(learner, (channels, height, width)))
    assert memory_needed(wide, TINY) > 1.2 * memory_needed(square, TINY)


def find_in(data, folder):
    return search(data, TINY.model_copy(update={"epochs": 1, "posterior_epochs": 1}), folder, learners=1)
