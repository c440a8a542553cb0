"""Every equation of the paper that the documentation calls done is cited where it is said to be."""

import re

from tests.readme import ROOT


def test_equations_are_cited_where_they_live():
    table = (ROOT / "docs" / "paper.md").read_text()
    rows = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \| (done|planned|) ?\|", table, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 17))
    for number, places, state in rows:
        if state == "done":
            for place in re.findall(r"`([\w.]+)`", places):
                path = ROOT / "src" / place.replace(".", "/")
                source = (
                    path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
                ).read_text()
                cited = {
                    int(n) for group in re.findall(r"Eqs?\. ([\d, and]+)", source) for n in re.findall(r"\d+", group)
                }
                assert int(number) in cited, f"{place} does not cite Eq. {number}"
