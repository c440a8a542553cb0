"""Several runs in one table: data sets as columns, a row per recipe, selector and policy, means over seeds.

Runs of one data set that differ in nothing but their seeds, and in where they ran, are taken as repetitions of each
other; a control stands apart, and is called what it differs in. This file knows documents of results, and computes
nothing else.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from quorate.report.markup import Cell, section, table
from quorate.report.page import document
from quorate.report.tables import macs, percent

__all__ = ["MEASURES", "Merged", "Statistic", "as_page", "as_rows", "as_table", "merged"]

Document = Mapping[str, Any]

ELSEWHERE = {"recipe", "selector", "seed", "root", "run", "device", "jobs", "threads", "measuring",
             "checkpoint_seconds"}  # fmt: skip
"""Settings in which repetitions may differ, and those that stand in columns of their own."""
MEASURES = ("accuracy", "f-m", "f-mt", "lazy", "free-running", "ece")
POLICIES = ("SQUAD, mean", "SQUAD, t-test", "pool, gate, depth-first", "cascade of whole learners",
            "soft vote so far, depth-first", "one learner, confidence")  # fmt: skip


class Statistic(NamedTuple):
    """A mean over runs, its standard deviation (None for one run), and of how many."""

    mean: float
    deviation: float | None
    runs: int


class Merged(NamedTuple):
    """What one policy of one kind of committee amounts to on one data set.

    Attributes:
        data: the data set.
        recipe: or the budget, where no recipe is known; and what sets it apart from others of that name.
        selector: of the search; empty where there was none.
        policy: as tables name it.
        measures: by the names of :data:`MEASURES`; None where the policy has no such cost.
    """

    data: str
    recipe: str
    selector: str
    policy: str
    measures: Mapping[str, Statistic | None]


def merged(results: Sequence[Document]) -> list[Merged]:
    """All runs, their repetitions taken together, in the order in which they are given.

    Example:
        >>> row = {"accuracy": 0.9, "ece": 0.1, "costs": {"lazy": 5.0}}
        >>> run = {"data": {"name": "toy"}, "learners": [{}], "static": row, "own": None, "policies": []}
        >>> merged([run, run])[0].measures["lazy"]
        Statistic(mean=5.0, deviation=0.0, runs=2)
    """
    found: dict[tuple[str, str, str, str], list[Document]] = {}
    for one, (data, recipe, selector) in zip(results, _kinds(results), strict=True):
        rows = {"static soft vote": one["static"]}
        rows |= {f"{row['group']}": row for row in one["policies"]
                 if row["device"] == "lazy" and row["group"] in POLICIES}  # fmt: skip
        rows |= {} if one["own"] is None else {"the committee's own": one["own"]}
        for policy, row in rows.items():
            found.setdefault((data, recipe, selector, policy), []).append(row)
    return [Merged(*key, {m: _statistic(rows, m) for m in MEASURES}) for key, rows in found.items()]


def _kinds(results: Sequence[Document]) -> list[tuple[str, str, str]]:
    """Data set, recipe and selector of each run; the recipe with what not all runs of that name have in common."""
    named = [(str((one.get("data") or {}).get("name") or one.get("run") or "votes"), *_called(one)) for one in results]
    settings = [_settings(one) for one in results]
    kinds = []
    for (data, recipe, selector), mine in zip(named, settings, strict=True):
        same = [other for name, other in zip(named, settings, strict=True) if name == (data, recipe, selector)]
        odd = {name: [other.get(name) for other in same] for name in mine}
        said = [
            _apart(name, mine[name], values) for name, values in odd.items() if any(v != mine[name] for v in values)
        ]
        kinds.append((data, ", ".join([recipe, *filter(None, said)]), selector))
    return kinds


def _apart(name: str, value: Any, values: Sequence[Any]) -> str:
    """A setting that not all have; nothing where it is left out, and the others say enough."""
    if value is True:
        return name
    nothing = {repr(v) for v in values if v is None or v is False or v == []}
    if nothing == {repr(value)}:
        return ""
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _settings(results: Document) -> dict[str, Any]:
    """What a run was told, one flat table, without what repetitions may differ in."""
    config = results.get("config") or {}
    return _flat(config.get("run") or config.get("about") or {})


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in table.items():
        if name in ELSEWHERE:
            continue
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        else:
            found[f"{above}{name}"] = value
    return found


def _called(results: Document) -> tuple[str, str]:
    """Recipe and selector, from wherever a configuration says them."""
    config = results.get("config") or {}
    places = [config.get("run") or {}, config.get("about") or {}, config]
    recipe = next((str(p["recipe"]) for p in places if isinstance(p, Mapping) and p.get("recipe")), "")
    selector = next((str(p["selector"]) for p in places if isinstance(p, Mapping) and p.get("selector")), "")
    run = config.get("run") or {}
    if run.get("model") or run.get("genotype"):
        selector = ""  # nothing was searched
    elif run.get("match_macs"):
        selector = "random"
    if not recipe:
        networks = config.get("learners") or [{}]
        sizes = [f"{letter}{networks[0][k]}" for letter, k in (("C", "channels"), ("L", "cells")) if k in networks[0]]
        epochs = (config.get("training") or {}).get("epochs")
        recipe = " ".join([f"{len(results['learners'])} learners", *sizes, *([f"{epochs} epochs"] if epochs else [])])
    return recipe, selector


def _statistic(rows: Sequence[Document], measure: str) -> Statistic | None:
    values = [row[measure] if measure in ("accuracy", "ece") else row["costs"].get(measure) for row in rows]
    known = [float(v) for v in values if v is not None]
    if not known or len(known) < len(values):
        return None
    return Statistic(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))


def as_rows(merges: Sequence[Merged]) -> list[dict[str, Any]]:
    """Flat rows, one for each data set, recipe, selector and policy, for CSV."""
    rows = []
    for one in merges:
        row: dict[str, Any] = {"data": one.data, "recipe": one.recipe, "selector": one.selector, "policy": one.policy}
        row["runs"] = max((s.runs for s in one.measures.values() if s is not None), default=0)
        for name, found in one.measures.items():
            row[name] = None if found is None else found.mean
            row[f"{name} deviation"] = None if found is None else found.deviation
        rows.append(row)
    return rows


def as_table(merges: Sequence[Merged], measure: str) -> tuple[list[str], list[list[str]]]:
    """One measure: data sets as columns, a row per recipe, selector and policy.

    Example:
        >>> one = Merged("toy", "small", "", "pool", {"lazy": Statistic(1.0, None, 1)})
        >>> as_table([one], "lazy")
        (['recipe', 'selector', 'policy', 'toy'], [['small', '', 'pool', '1']])
    """
    data = list(dict.fromkeys(one.data for one in merges))
    cells = {(one.recipe, one.selector, one.policy, one.data): one.measures.get(measure) for one in merges}
    rows = []
    for recipe, selector, policy in dict.fromkeys((m.recipe, m.selector, m.policy) for m in merges):
        found = [cells.get((recipe, selector, policy, name)) for name in data]
        if any(found):
            rows.append([recipe, selector, policy, *(_said(one, measure) for one in found)])
    return ["recipe", "selector", "policy", *data], rows


def _said(found: Statistic | None, measure: str) -> str:
    if found is None:
        return "-"
    share = measure in ("accuracy", "ece")
    said = percent(found.mean) if share else macs(found.mean)
    if found.deviation is not None:
        spread = f"{100 * found.deviation:.2f}" if share else macs(found.deviation, found.mean)
        said += f" ± {spread} (n = {found.runs})"
    return said


def as_page(merges: Sequence[Merged]) -> str:
    """The tables as a page of their own."""
    parts = []
    for measure in MEASURES:
        columns, rows = as_table(merges, measure)
        body: list[tuple[str, list[Cell]]] = [("own" if "own" in row[2] else "", list(row)) for row in rows]
        if rows:
            parts.append(table(columns, body, name=measure))
    runs = max((s.runs for one in merges for s in one.measures.values() if s is not None), default=0)
    lead = (
        "Means over the runs of one recipe, selector and data set; behind ± their standard deviation, where there is "
        f"more than one (at most {runs}). Costs are mean MACs per sample at the threshold that calibration chooses."
    )
    return document("several runs", f"<main>{section('merged', 'Several runs', parts, lead)}</main>")
