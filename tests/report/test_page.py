import re
from html.parser import HTMLParser

import numpy as np
import pytest

from quorate.report.deciding import promise, times
from quorate.report.gallery import as_png, picked, samples_of
from quorate.report.looking import Extras
from quorate.report.page import page_of
from quorate.report.saying import of_classes, of_costs, of_criteria, of_curves, of_exits, of_training, points, saved
from quorate.report.svg import nice
from quorate.squad import Rule, replay
from tests.report.cases import HOSTILE, document, extras, votes

VOID = {"meta", "link", "img", "input", "br"}


class Tree(HTMLParser):
    """Refuses what is not nested, and keeps tags with their attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text.append(data)


def tree_of(page):
    tree = Tree()
    tree.feed(page)
    tree.close()
    assert tree.open == []
    return tree


def test_it_is_one_file_that_needs_nothing(results):
    page = page_of(results, extras())
    tree = tree_of(page)
    assert len(page.encode()) < 3 * 2**20
    for tag, attributes in tree.tags:
        for name in ("src", "href"):
            if name in attributes:
                assert attributes[name].startswith(("#", "data:")), (tag, attributes[name])
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "@import" not in page


def test_every_figure_says_what_to_see(results):
    page = page_of(results, extras())
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    captions = [re.search(r"<figcaption>(.*?)</figcaption>", one, re.DOTALL) for one in figures]
    assert len(figures) > 15
    assert all(caption and len(caption[1]) > 15 for caption in captions)


def test_ids_are_there_once_and_links_lead_somewhere(results):
    tree = tree_of(page_of(results, extras()))
    ids = [attributes["id"] for _, attributes in tree.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in tree.tags:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        if "url(#" in attributes.get("clip-path", ""):
            assert attributes["clip-path"][5:-1] in ids


def test_names_are_never_markup(hostile):
    tree = tree_of(page_of(hostile, extras()))
    assert not [tag for tag, attributes in tree.tags if "onerror" in attributes]
    assert HOSTILE in "".join(tree.text)


def test_the_same_results_give_the_same_page(results):
    assert page_of(results, extras()) == page_of(results, extras())


def test_without_anything_besides_it_is_still_a_page(results):
    tree = tree_of(page_of({**results, "own": None, "answers": {"static": results["answers"]["static"]}}))
    assert "gallery" not in [attributes.get("id") for _, attributes in tree.tags]
    tree_of(page_of({**results, "sweeps": []}, Extras()))


@pytest.mark.parametrize(("num_exits", "num_learners"), [(1, 1), (2, 1)])
def test_small_committees_have_a_page(num_exits, num_learners):
    tree_of(page_of(document(num_exits=num_exits, num_learners=num_learners)))


def test_the_papers_figures_are_called_the_papers():
    about = {"data": {"name": "cifar10"}, "config": {"learners": [{"channels": 16, "cells": 8}],
             "training": {"epochs": 4}}}  # fmt: skip
    page = page_of(document(about=about))
    assert "the paper&#x27;s: QUEST, mean" in page
    assert "97.03 %" in page
    assert "3 learners, C = 16, L = 8, 4 epochs each" in page
    assert "3 learners, C = 36, L = 20, 600 epochs each" in page
    assert "SQUAD, mean at 0.95" in page


def test_no_paper_for_other_data(results):
    assert "97.03" not in page_of(results)


def test_many_classes_are_shown_by_their_worst(results):
    names = [f"class {c}" for c in range(30)]
    table = np.eye(30, 31, dtype=int) * 9
    table[3, 4] = 5
    per_class = [{"samples": int(row.sum()), "accuracy": float(row[c] / row.sum())} for c, row in enumerate(table)]
    told = {
        "per_class": per_class,
        "confusion": table.tolist(),
        "reliability": results["answers"]["own"]["reliability"],
    }
    page = page_of({**results, "classes": names, "answers": {"own": told, "static": told}})
    assert (
        "class 3 is hardest (64.3 % right), 29 classes are always right. The most frequent mistake is class 3" in page
    )
    assert "The hardest classes" in page


def test_measured_time_comes_from_the_bench_or_the_evaluation(results):
    engine = {"backend": "torch", "threads": 1, "samples": 240, "differing": 2, "largest": 1e-4,
              "milliseconds": {"64": {"policy": 1.0, "static": 4.0, "images": 64}}}  # fmt: skip
    assert times({**results, "engine": engine}) == [(64, 1.0, 4.0)]
    row = {"backend": "onnxruntime", "batch": 1, "name": "own", "source": "lazy", "median": 1.0, "p95": 2.0,
           "milliseconds": 1.5, "macs": 5.0, "saved_time": 0.25, "saved_macs": 0.5, "time_per_macs": 0.5,
           "predicted": None, "realised": None, "accuracy": 0.9}  # fmt: skip
    rows = [{**row, "name": "static ensemble", "source": "whole", "milliseconds": 2.0}, row]
    timed = {**results, "engine": engine, "bench": {"rows": rows, "threads": 1, "rounds": 3, "hardware": {}}}
    assert times(timed) == [(1, 1.5, 2.0)]
    page = page_of(timed)
    assert "2 of 240 answers or exits differ, by the rounding of recorded votes" in page
    assert "25 % saved" in page


def test_a_promise_stands_beside_what_came_of_it(results):
    tuning = {"policy": results["own"]["policy"], "wish": {"cost": "lazy"}, "samples": 100, "drop": 0.1,
              "drop_interval": [-50.0, 50.0], "cost": 9.0, "static_cost": 21.0}  # fmt: skip
    assert "within the interval" in promise({**results, "tuning": tuning})
    assert "better than it" in promise({**results, "tuning": {**tuning, "drop_interval": [40, 50]}})
    assert "worse than it" in promise({**results, "tuning": {**tuning, "drop_interval": [-50, -40]}})
    assert promise({**results, "tuning": {**tuning, "policy": "another"}}) == ""


def test_sentences_follow_the_numbers():
    static = {"accuracy": 0.95, "costs": {"lazy": 100.0}}
    rows = [
        {"group": "SQUAD, mean", "family": "squad", "kept": True, "costs": {"lazy": 60.0}, "accuracy": 0.95},
        {"group": "pool", "family": "pool", "kept": True, "costs": {"lazy": 30.0}, "accuracy": 0.93},
        {"group": "soft", "family": "soft", "kept": False, "costs": {"lazy": 10.0}, "accuracy": 0.5},
    ]
    said = of_costs(rows, static, "lazy", 0.5)
    assert said.startswith("Pool is the cheapest")
    assert "30 % of the static ensemble, and on test it loses 2.00 points" in said
    assert "SQUAD, mean needs 2.00 times as much. 1 of 2 lose more" in said
    assert of_costs(rows[2:], static, "lazy", 0.5).startswith("No policy keeps")
    sweeps = [
        {"group": "SQUAD, mean", "costs": {"lazy": [1.0, 2.0]}, "accuracy": [0.90, 0.94]},
        {"group": "SQUAD, t-test", "costs": {"lazy": [1.0, 2.0]}, "accuracy": [0.91, 0.95]},
    ]
    assert of_criteria(sweeps, "lazy").startswith("At equal cost the t-test is 1.00 points more accurate")
    assert "SQUAD, t-test is the first" in of_curves(sweeps, static, "lazy")
    assert "Never there: SQUAD, mean" in of_curves(sweeps, static, "lazy")
    assert of_exits([("a", [0.75, 0.25], 0.0), ("b", [0.5, 0.25], 0.25)]) == (
        "75 % of the samples leave at exit 0 with a, 50 % with b. Answers are forced most often with b, 25.0 %."
    )
    assert "may not have settled" in of_training([{"calibration_accuracy": [0.5]}, {"calibration_accuracy": [0.6]}])
    assert "in epoch 1" in of_training([{"calibration_accuracy": [0.7]}, {"calibration_accuracy": [0.6]}])
    table = {"per_class": [{"accuracy": 0.5}, {"accuracy": 0.75}], "confusion": [[1, 1, 0], [1, 3, 0]]}
    assert of_classes(table, ["cat", "dog"]).startswith("cat is hardest (50.0 % right), dog easiest (75.0 %).")
    assert (saved(3, 4), saved(None, 4), points(0.0123)) == ("25 % saved", "-", "+1.23")


def test_the_gallery_shows_the_surest_first_and_the_least_sure_later():
    part = votes(seed=1)
    outcome = replay(part.probs, part.macs, Rule("mean", 0.8))
    rows = picked(outcome, 2, 5)
    first, last = rows[:5], rows[5:]
    assert (outcome.exit[first] == 0).all()
    assert (outcome.exit[last] == 1).all()
    assert outcome.confidence[first].min() >= np.sort(outcome.confidence[outcome.exit == 0])[-5]
    assert outcome.confidence[last].max() <= np.sort(outcome.confidence[outcome.exit == 1])[4]
    shown = samples_of(outcome, np.zeros((240, 200, 100, 2), np.uint8), part.labels, list("abcd"), 5)
    assert [s.right for s in shown] == [bool(outcome.label[i] == part.labels[i]) for i in rows]


def test_pictures_are_small():
    from io import BytesIO

    from PIL import Image

    assert Image.open(BytesIO(as_png(np.zeros((200, 100, 3), np.uint8)))).size == (48, 96)
    assert Image.open(BytesIO(as_png(np.zeros((8, 8, 5), np.uint8)))).mode == "L"


def test_axes_cover_their_range():
    for low, high, whole in (
        (0.0, 1e9, False),
        (0.931, 0.932, False),
        (1, 4, True),
        (0, 0, False),
        (-3.5, -1.2, False),
    ):
        ticks = nice(low, high, 5, whole)
        assert ticks[0] <= low
        assert ticks[-1] >= high
        assert ticks[-1] > ticks[0]
        assert 2 <= len(ticks) <= 8
        assert not whole or all(t == int(t) for t in ticks)


def test_odd_committees_have_a_page():
    free = document()
    for row in (free["static"], free["own"], *free["policies"]):
        row["costs"] = {name: None if cost is None else 0.0 for name, cost in row["costs"].items()}
    for sweep in free["sweeps"]:
        sweep["costs"] = {name: [0.0] * len(values) for name, values in sweep["costs"].items()}
    tree_of(page_of(free))  # costs that nobody gave
    there = np.ones((2, 3, 240), bool)
    there[0, 1] = False
    tree_of(page_of(document(present=there)))  # a learner with one exit less
