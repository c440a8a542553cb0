"""What a committee is made of, and what it was found with."""

import warnings

import pytest

from quorate.data import load
from quorate.recipes.committee import warn_of_overlap
from quorate.store.run import RunFolder
from quorate.store.search import write_genotypes


@pytest.mark.parametrize(("changes", "said"), [({}, None), ({"seed": 1}, "seed 0, not 1"), ({"data": "mnist"}, None)])
def test_a_search_that_saw_the_calibration_part_is_warned_of(tmp_path, changes, said):
    cell = [["skip_connect", 0]] * 8
    about = {"data": changes.get("data", "digits"), "config": {"seed": 0, "calibration": 0.1}}
    RunFolder(tmp_path).search.mkdir()
    write_genotypes(
        RunFolder(tmp_path).genotypes, {"svgd": {"genotypes": [{"normal": cell, "reduce": cell}], "row": {}}}, about
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_overlap(tmp_path, load("digits"), changes.get("seed", 0), 0.1)
    assert [said in str(one.message) for one in caught] == ([] if said is None else [True])
