"""The second part of the page: calibration, classes, samples, learners, the paper's figures.

This file knows the document of results and what a command brings besides; it computes nothing.
"""

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from quorate.report.bars import bars, grouped, squares
from quorate.report.charts import reliability
from quorate.report.deciding import hero
from quorate.report.markup import Cell, figure, legend, section, table
from quorate.report.published import PUBLISHED, PUBLISHED_BUDGET, Published
from quorate.report.saying import of_calibration, of_classes, of_disagreement
from quorate.report.tables import macs, percent

__all__ = ["Extras", "Sample", "beside_the_paper", "classes", "gallery", "learners", "trust"]

Document = Mapping[str, Any]


class Sample(NamedTuple):
    """A picture and what was said of it.

    Attributes:
        png: the picture.
        exit: where it left.
        truth: its class.
        answer: what was said.
        confidence: of the answer.
        right: whether both agree.
    """

    png: bytes
    exit: int
    truth: str
    answer: str
    confidence: float
    right: bool


class Extras(NamedTuple):
    """What a page can show besides results.

    Attributes:
        samples: pictures, by exit.
        drawings: SVG files of genotypes, by title.
        histories: lines of ``history.jsonl`` of each learner, by name.
        search: lines of the search's history.
    """

    samples: Sequence[Sample] = ()
    drawings: Mapping[str, bytes] = {}
    histories: Mapping[str, Sequence[Document]] = {}
    search: Sequence[Document] = ()


def trust(results: Document) -> str:
    """Disagreement and calibration, exit by exit."""
    exits = [f"exit {e}" for e in range(results["exits"])]
    own, static = hero(results), results["static"]
    known = PUBLISHED.get((results.get("data") or {}).get("name", ""))
    theirs = None if known is None or len(known.ppd) != len(exits) else known
    parts = []
    ppd = [("this committee", "s0", _percents(static["ppd"]))]
    if theirs:
        ppd.append(("the paper's QUEST", "theirs", list(theirs.ppd)))
    if any(v is not None for v in static["ppd"]):
        parts.append(figure("Disagreement of the learners (PPD)", grouped(exits, ppd, y="pairs that differ, %"),
                            of_disagreement(static["ppd"], results["samples"]), above=_names(ppd)))  # fmt: skip
    rule = next((r for r in results["policies"] if r["group"] == "SQUAD, mean"), None)
    ece = [("own: those who leave", "s2", _percents(own["exit_ece"]))]
    if rule is not None:
        ece.append(("SQUAD, mean: those who leave", "s0", _percents(rule["exit_ece"])))
        if rule["stage_ece"]:
            ece.append(("SQUAD, mean: all samples", "s1", _percents(rule["stage_ece"])))
    if theirs:
        ece.append(("the paper's QUEST", "theirs", list(theirs.exit_ece)))
    answered = results["answers"].get("own", results["answers"]["static"])
    judged = own if "own" in results["answers"] else static
    parts.append(figure("Calibration error by exit", grouped(exits, ece, y="ECE, %"), _of_exits(ece),
                        above=_names(ece)))  # fmt: skip
    n = results["samples"]
    bins = [None if b is None else (b["confidence"], b["accuracy"], b["samples"] / n) for b in answered["reliability"]]
    parts.append(figure("Does confidence hold?", reliability(bins),
                        of_calibration(judged, static, answered["reliability"])))  # fmt: skip
    rows: list[tuple[str, list[Cell]]] = []
    for name, row in [("static soft vote", static), ("the committee's own", results["own"]),
                      *((r["group"], r) for r in results["policies"] if r["device"] == "lazy")]:  # fmt: skip
        if row is not None:
            auroc = "-" if row["auroc"] is None else f"{row['auroc']:.4f}"
            rows.append(("", [name, percent(row["ece"]), percent(row["aurc"], 3), auroc]))
    parts.append(f"<div>{table(['policy', 'ECE', 'AURC', 'AUROC'], rows, name='Confidence, overall')}</div>")
    return section("trust", "Can one trust what it says?", [f'<div class="grid-2">{"".join(parts)}</div>'])


def _of_exits(rows: Sequence[tuple[str, str, Sequence[float | None]]]) -> str:
    known = [(v, name, e) for name, style, row in rows if style != "theirs" for e, v in enumerate(row) if v is not None]
    if not known:
        return "Nobody leaves anywhere."
    low, high = min(known), max(known)
    return f"Best called: {low[1]}, exit {low[2]} ({low[0]:.2f} %). Worst: {high[1]}, exit {high[2]} ({high[0]:.2f} %)."


def _percents(values: Sequence[float | None]) -> list[float | None]:
    return [None if v is None else 100 * v for v in values]


def _names(rows: Sequence[tuple[str, str, Any]]) -> str:
    return legend([(style, name) for name, style, _ in rows])


def classes(results: Document) -> str:
    """Accuracy of each class, and what is taken for what."""
    answered = results["answers"].get("own", results["answers"]["static"])
    names = results["classes"]
    ranked = sorted(
        ((row["accuracy"], row["samples"], names[c]) for c, row in enumerate(answered["per_class"]) if row["samples"])
    )
    many = len(ranked) > 20
    shown = ranked[:14] if many else ranked
    drawn = bars([(name, right, f"{percent(right, 1)} of {n:,}", 0) for right, n, name in shown])
    says = of_classes(answered, names)
    title = "The hardest classes" if many else "Accuracy by class"
    matrix = squares(answered["confusion"], names)
    both = figure(title, drawn, says) + figure("What is taken for what", matrix, _of_matrix(results))
    return section("classes", "Class by class", [f'<div class="grid-2">{both}</div>'])


def _of_matrix(results: Document) -> str:
    from quorate.report.answers import confused

    answered = results["answers"].get("own", results["answers"]["static"])
    names, pairs = results["classes"], confused(answered["confusion"], 3)
    if not pairs:
        return "Every answer is right: nothing lies off the diagonal."
    wrong = sum(sum(row) - row[c] for c, row in enumerate(answered["confusion"]))
    top = sum(count for *_, count in pairs)
    said = ", ".join(f"{names[i]} as {names[j]} ({count})" for i, j, count in pairs)
    return (
        f"Rows are the truth. The most frequent mistakes: {said}; they are {100 * top / wrong:.0f} % of all {wrong:,}."
    )


def gallery(results: Document, samples: Sequence[Sample]) -> str:
    """Pictures by the exit where they left."""
    rows = []
    own = hero(results)
    for e in sorted({s.exit for s in samples}):
        mine = [s for s in samples if s.exit == e]
        share = own["left"][e] + own["forced"][e]
        pictures = "".join(
            f'<div class="sample {"right" if s.right else "wrong"}"><img alt="{escape(s.truth)}" '
            f'src="data:image/png;base64,{base64.b64encode(s.png).decode()}"><b>{escape(s.answer)}</b>'
            f"<small>{100 * s.confidence:.0f} %{'' if s.right else ', is ' + escape(s.truth)}</small></div>"
            for s in mine
        )
        what = "the surest" if e == 0 else "the least sure"
        rows.append(f"<h3>exit {e}<small>{100 * share:.1f} % of the samples, here {what} of them</small></h3>"
                    f'<div class="samples">{pictures}</div>')  # fmt: skip
    wrong = sum(not s.right for s in samples)
    lead = f"What left first, and what had to go deep. {wrong} of these {len(samples)} are answered wrongly."
    return section("gallery", "Easy ones and hard ones", rows, lead) if rows else ""


def beside_the_paper(results: Document) -> str:
    """The paper's own figures on this data set, with the budgets of both."""
    known = PUBLISHED.get((results.get("data") or {}).get("name", ""))
    if known is None:
        return ""
    static = results["static"]
    ours: list[tuple[str, Document]] = [("static soft vote", static)]
    ours += [(f"{r['group']} at {known.threshold:g}", r) for r in results["at_published_threshold"]]
    if results["own"] is not None:
        ours.append(("the committee's own", results["own"]))
    budget = _budget(results)
    rows: list[tuple[str, list[Cell]]] = []
    for name, row in ours:
        cells: list[Cell] = [("ours: " + name, budget), percent(row["accuracy"])]
        cells += [macs(row["costs"][c], 1e6) for c in ("f-m", "f-mt")]
        rows.append(("own", cells))
    for line in known.rows:
        note = PUBLISHED_BUDGET if line.name.startswith("QUEST") else "as the paper gives it"
        cells = [("the paper's: " + line.name, line.note or note), percent(line.accuracy / 100)]
        rows.append(("theirs", [*cells, macs(line.f_m * 1e6), macs(line.f_mt * 1e6)]))
    lead = (
        f"The paper's figures on {known.title} are the paper's, not measured here. They come from another budget, so "
        "accuracies and costs are not to be held against each other: "
        f"ours {budget}, theirs {PUBLISHED_BUDGET}."
    )
    tables = [table(["", "accuracy", "F_M", "F_MT"], rows), _compared(results, known)]
    return section("paper", "Beside the paper", tables, lead)


def _budget(results: Document) -> str:
    config = results.get("config") or {}
    networks = config.get("learners") or [{}]
    first, training = networks[0], config.get("training") or {}
    said = [f"{len(results['learners'])} learners"]
    said += [f"{letter} = {first[key]}" for letter, key in (("C", "channels"), ("L", "cells")) if key in first]
    said += [f"{training['epochs']} epochs each"] if "epochs" in training else []
    return ", ".join(said)


def _compared(results: Document, known: Published) -> str:
    """Who saves what share of the own static ensemble: the one comparison that budgets do not spoil."""
    whole = known.rows[0]
    rows: list[tuple[str, list[Cell]]] = []
    static = results["static"]
    for line in known.rows[3:]:
        criterion = line.name.removeprefix("QUEST, ")
        mine = next((r for r in results["at_published_threshold"] if r["group"].endswith(criterion)), None)
        if mine is None:
            continue
        theirs = f"{100 * (1 - line.f_mt / whole.f_mt):.1f} %, {line.accuracy - whole.accuracy:+.2f} points"
        less = 100 * (1 - mine["costs"]["f-mt"] / (static["costs"]["f-mt"] or 1))
        gained = 100 * (mine["accuracy"] - static["accuracy"])
        rows.append(("", [criterion, f"{less:.1f} %, {gained:+.2f} points", theirs]))
    heads = ["criterion", "F_MT saved against our static ensemble", "the paper's, against NESBS"]
    return table(heads, rows, name=f"Savings at threshold {known.threshold:g}")


def learners(results: Document, drawings: Mapping[str, bytes]) -> str:
    """What each exit of each learner knows and costs, and the genotypes."""
    exits = range(results["exits"])
    rows: list[tuple[str, list[Cell]]] = []
    most = max(one["macs"] for one in results["learners"])
    for k, one in enumerate(results["learners"]):
        cells: list[Cell] = [(one["name"], f"{macs(one['macs'], most)} MACs")]
        cells += [(percent(one["accuracy"][e]), macs(results["macs"][e][k], most)) for e in exits]
        rows.append(("", [*cells, percent(one["ece"][-1])]))
    parts = [table(["learner", *(f"exit {e}" for e in exits), "ECE, last exit"], rows,
                   name="Accuracy of each exit, and the cost of its branch")]  # fmt: skip
    for i, (title, svg) in enumerate(drawings.items()):
        parts.append(
            f"<details{'' if i else ' open'}><summary>genotype of {escape(title)}</summary>"
            f'<img class="drawing" alt="genotype of {escape(title)}" '
            f'src="data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"></details>'
        )
    return section("learners", "The learners", parts)
