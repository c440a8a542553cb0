import pytest

from quorate.report.merging import as_page, as_rows, as_table, merged
from tests.report.test_page import tree_of


def run(data, accuracy, lazy, recipe="small", selector="svgd", **more):
    row = {"accuracy": accuracy, "ece": 0.1, "costs": {"lazy": lazy, "f-m": None}}
    squad = {**row, "group": "SQUAD, mean", "device": "lazy", "accuracy": accuracy - 0.01}
    config = {"run": {"recipe": recipe, "selector": selector}}
    return {"data": {"name": data}, "run": "r", "learners": [{}] * 3, "static": row, "own": row, "policies": [squad],
            "config": config, **more}  # fmt: skip


def test_seeds_of_one_recipe_are_taken_together():
    merges = merged([run("digits", 0.90, 10.0), run("digits", 0.94, 14.0), run("cifar10", 0.8, 100.0)])
    static = next(m for m in merges if m.data == "digits" and m.policy == "static soft vote")
    assert static.measures["accuracy"] == (pytest.approx(0.92), pytest.approx(0.02 * 2**0.5), 2)
    assert static.measures["f-m"] is None
    alone = next(m for m in merges if m.data == "cifar10" and m.policy == "SQUAD, mean")
    assert alone.measures["lazy"] == (100.0, None, 1)


def test_data_sets_are_columns_and_selectors_rows():
    merges = merged([run("digits", 0.9, 10.0), run("cifar10", 0.8, 100.0), run("digits", 0.7, 9.0, selector="random")])
    columns, rows = as_table(merges, "accuracy")
    assert columns == ["recipe", "selector", "policy", "digits", "cifar10"]
    assert ["small", "random", "the committee's own", "70.00 %", "-"] in rows
    assert as_table(merges, "f-m")[1] == []
    assert {row["selector"] for row in as_rows(merges)} == {"svgd", "random"}


def told(**settings):
    return {"run": {"recipe": "small", "selector": "svgd", "seed": 0, **settings}}


def test_controls_are_no_repetitions():
    runs = [run("digits", accuracy, 10.0, config=config) for accuracy, config in [
        (0.9, told(single=False, training={"epochs": 24, "seed": 0})),
        (0.8, told(single=False, training={"epochs": 24, "seed": 1}, threads=4) | {"seed": 1}),
        (0.7, told(single=True, training={"epochs": 24, "seed": 0})),
        (0.6, told(single=False, training={"epochs": 24, "seed": 0}, match_macs="runs/a")),
        (0.5, told(single=False, training={"epochs": 0, "seed": 0})),
    ]]  # fmt: skip
    merges = [m for m in merged(runs) if m.policy == "static soft vote"]
    assert {m.recipe: (pytest.approx(m.measures["accuracy"].mean), m.measures["accuracy"].runs) for m in merges} == {
        "small, training.epochs 24": (0.85, 2),
        "small, single, training.epochs 24": (0.7, 1),
        "small": (0.6, 1),  # whose selector stands apart: random
        "small, training.epochs 0": (0.5, 1),
    }


def test_without_a_recipe_the_budget_tells_runs_apart():
    config = {"learners": [{"channels": 16, "cells": 8}], "training": {"epochs": 4}}
    assert merged([run("digits", 0.9, 1.0, config=config)])[0].recipe == "3 learners C16 L8 4 epochs"


def test_the_tables_are_a_page():
    page = as_page(merged([run("<b>", 0.9, 10.0), run("<b>", 0.8, 12.0)]))
    tree_of(page)
    assert "85.00 % ± 7.07 (n = 2)" in page
    assert "<b>" not in page


def test_others_are_judged_by_the_wish_that_the_run_was_tuned_for(tmp_path):
    from types import SimpleNamespace

    from quorate.cli.run_parts import allowed
    from quorate.store.run import RunFolder
    from quorate.store.schema import write_document

    parts = SimpleNamespace(place=RunFolder(tmp_path))
    assert allowed(parts) == 0.5
    for wished, drop in ((2.0, 2.0), (None, 0.5)):
        write_document(parts.place.tuning, "quorate.tuning", 1, {"wish": {"max_drop": wished}})
        assert allowed(parts) == drop


def test_a_selector_stands_only_where_something_was_searched():
    given, matched, found = (merged([run("digits", 0.9, 1.0, config=told(**settings))])[0]
                             for settings in ({"genotype": ["DARTS_V1"]}, {"match_macs": "runs/a"}, {}))  # fmt: skip
    assert (given.selector, matched.selector, found.selector) == ("", "random", "svgd")
