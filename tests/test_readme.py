import re

import pytest

import quorate
from tests.readme import PYTHON, ROOT, refreshed


def test_commands_print_what_the_readme_says():
    text = (ROOT / "README.md").read_text()
    assert text == refreshed(text), "run `python -m tests.readme README.md`"


def test_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = PYTHON.findall((ROOT / "README.md").read_text())
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
