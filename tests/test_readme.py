import re
import shutil

import numpy as np
import pytest

import quorate
from quorate.engine import Committee, InputSpec
from quorate.nets import DARTS_V1, DARTS_V2
from quorate.squad import Rule
from quorate.train import build_learners
from tests.readme import CONSOLE, PYTHON, ROOT, refreshed

NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*")


def test_commands_print_what_the_readme_says():
    text = (ROOT / "README.md").read_text()
    for said, now in zip(CONSOLE.findall(text), CONSOLE.findall(refreshed(text)), strict=True):
        words, others = (NUMBER.sub("#", block).split() for block in (said, now))
        assert words == others, "run `python -m tests.readme README.md`"
        for a, b in zip(NUMBER.findall(said), NUMBER.findall(now), strict=True):
            # another processor rounds otherwise, and a sample at a threshold goes the other way
            assert float(b.replace(",", "")) == pytest.approx(float(a.replace(",", "")), rel=0.1, abs=0.5), (a, b)


PAGES = [
    "README.md",
    *(f"docs/{name}.md" for name in ("policies", "learners", "engine", "parallel", "photos", "quickstart", "search")),
]


@pytest.fixture(scope="session")
def digits_bundle(tmp_path_factory):
    """Where a run of the digits would leave its bundle, an untrained committee's."""
    root = tmp_path_factory.mktemp("root")
    (root / "runs/digits").mkdir(parents=True)
    specs = InputSpec(8, 8, 1, (0.3,), (0.37,))
    learners = build_learners([DARTS_V1, DARTS_V2], channels=2, cells=2, image_channels=1)
    Committee(learners, Rule(), inputs=specs).export(root / "runs/digits/bundle")
    np.save(root / "digits.npy", np.zeros((20, 8, 8, 1), np.uint8))
    return root


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore:the logits barely moved", "ignore:[0-9]+ % of the kept edges")
def test_python_of_the_pages_runs(page, digits_bundle, tmp_path, monkeypatch, capsys):
    shutil.copytree(digits_bundle, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / page).read_text())
    assert blocks
    exec("\n".join(blocks), {})  # noqa: S102
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_links_and_make_targets_exist(page):
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\(([\w./-]+)\)", text):
        assert (ROOT / target).exists(), target
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"`?make ([a-z-]+)", text):
        assert target in targets, target


def test_the_version_stands_in_one_place_and_is_cited():
    assert f"version: {quorate.__version__}" in (ROOT / "CITATION.cff").read_text()
