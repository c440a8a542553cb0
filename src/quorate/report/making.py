"""The last part of the page: measured time, training and search, the time of each phase, configuration.

This file knows the document of results and histories, whatever these are called; it measures nothing.
"""

from collections.abc import Mapping, Sequence
from html import escape

from quorate.report.bars import bars, grouped
from quorate.report.charts import Series, lines
from quorate.report.deciding import Document, times
from quorate.report.looking import Extras
from quorate.report.markup import Cell, facts, figure, legend, section, table
from quorate.report.saying import of_agreement, of_training, saved
from quorate.report.tables import macs, percent

__all__ = ["making", "measured"]

BENCHED = {"own": "the committee's own", "squad": "SQUAD"}


def measured(results: Document) -> str:
    """Milliseconds beside MACs, and whether the engine agrees with the replay."""
    parts = []
    bench = results.get("bench") or {}
    found = times(results)
    if found:
        drawn = bars(
            [(f"batches of {t.batch}", t.policy / t.static, f"{t.policy:.3g} of {t.static:.3g} ms, "
              f"{saved(t.policy, t.static)}", 2) for t in found]
        )  # fmt: skip
        charts = figure("Milliseconds an image, of the static ensemble's", drawn, _of_times(results))
        parts.append(f'<div class="grid-2">{charts}{_saved(results)}</div>')
    if bench.get("rows"):
        parts.append(_bench_table(bench))
    parts.append(_engine(results.get("engine") or {}))
    return section("time", "Measured time", parts)


def _saved(results: Document) -> str:
    """Time saved beside MACs saved, by batch size."""
    own, static = results["own"] or results["static"], results["static"]
    less = 100 * (1 - own["costs"]["lazy"] / (static["costs"]["lazy"] or 1))
    found = times(results)
    gained = [100 * (1 - t.policy / t.static) for t in found]
    rows = [
        ("time saved", "s2", [max(0.0, g) for g in gained]),
        ("MACs saved", "s0", [max(0.0, less)] * len(found)),
    ]
    drawn = grouped([f"batches of {t.batch}" for t in found], rows, y="saved, %")
    best = max(gained)
    share = f"{100 * best / less:.0f} % of what the MACs promise" if less > 0 else "not what the MACs say"
    says = f"At best the clock confirms {share}: {best:.0f} % of the time for {less:.0f} % of the MACs."
    return figure("Is it saved in time as well?", drawn, says, above=legend([(s, n) for n, s, _ in rows]))


def _of_times(results: Document) -> str:
    """Whether saved MACs are saved time."""
    own, static = results["own"] or results["static"], results["static"]
    less = 1 - own["costs"]["lazy"] / (static["costs"]["lazy"] or 1)
    best = max(times(results), key=lambda t: 1 - t.policy / t.static)
    gained = 1 - best.policy / best.static
    said = f"{100 * less:.0f} % of the MACs are saved, and of the time {100 * gained:.0f} % in batches of {best.batch}"
    worst = [str(t.batch) for t in times(results) if t.policy >= t.static]
    if worst:
        said += f"; in batches of {', '.join(worst)} small calls cost more than they spare"
    return said + "."


def _bench_table(bench: Document) -> str:
    rows: list[tuple[str, list[Cell]]] = []
    for row in bench["rows"]:
        if row["source"] == "eager" and row["saved_time"] < 0:
            continue
        name = BENCHED.get(row["name"], row["name"])
        ratio = "-" if row["time_per_macs"] is None else f"{row['time_per_macs']:.2f}"
        cells: list[Cell] = [(name, row["source"]), str(row["batch"]), row["backend"]]
        cells += [f"{row[k]:.3g}" for k in ("milliseconds", "median", "p95")]
        cells += [percent(row["saved_time"], 1), percent(row["saved_macs"], 1), ratio, macs(row["macs"])]
        rows.append(("own" if row["name"] == "own" else "", cells))
    columns = ["who", "batch", "backend", "ms an image", "median", "p95", "time saved", "MACs saved", "ratio", "MACs"]
    hardware = bench.get("hardware") or {}
    where = f"{hardware.get('processor', hardware.get('machine', ''))}, threads: {bench.get('threads', '?')}"
    return table(columns, rows, name=f"Measured in turns on {where}, {bench.get('rounds', '?')} rounds")


def making(results: Document, extras: Extras) -> str:
    """How it was made: training, search, time, configuration, and whether the engine agrees with the replay."""
    charts = [_training(name, rows, i) for i, (name, rows) in enumerate(extras.histories.items())]
    charts += _search(extras.search)
    phases = results.get("phases") or {}
    if phases:
        total = sum(phases.values())
        slowest = max(phases, key=lambda name: phases[name])
        drawn = bars([(name, t / total, f"{t:,.1f} s", 0) for name, t in phases.items()], width=340)
        says = f"{total:,.0f} s in all, {100 * phases[slowest] / total:.0f} % of it for {slowest}."
        charts.append(figure("Time of each phase", drawn, says))
    parts = [f'<div class="grid-3">{"".join(charts)}</div>'] if any(charts) else []
    config = results.get("config") or {}
    for title in ("run", "data", "training", "about", "versions", "hardware", "git"):
        if isinstance(config.get(title), Mapping):
            shown = {k: v for k, v in config[title].items() if v is not None}
            parts.append(f"<details><summary>{title}</summary>{facts(shown)}</details>")
    return section("making", "How it was made", parts)


def _engine(engine: Document) -> str:
    if not engine:
        return ""
    said = f"The engine ({engine['backend']}, threads: {engine['threads']}) answered the same images as the replay of "
    said += f"recorded votes: {of_agreement(engine)}."
    return f'<p class="note">{escape(said)}</p>'


def _training(name: str, rows: Sequence[Document], number: int) -> str:
    series = []
    known = [row for row in rows if row.get("calibration_accuracy")]
    if not known:
        return ""
    n = len(known[0]["calibration_accuracy"])
    for e in range(n):
        at = [(row["epoch"] + 1, 100 * row["calibration_accuracy"][e], 0.0) for row in known]
        series.append(Series(f"exit {e}, held out", (0, 4, 2, 6, 3, 8)[e % 6], at))
    if known[0].get("accuracy"):
        at = [(row["epoch"] + 1, 100 * row["accuracy"][-1], 0.0) for row in known]
        series.append(Series("last exit, training", 8, at))
    drawn = lines(
        series, name=f"training-{number}", x="epoch", y="accuracy, %", origin=1, whole=True, width=360, height=270
    )
    return figure(f"Training of {name}", drawn, of_training(rows),
                  above=legend([(f"s{s.style}", s.name) for s in series]))  # fmt: skip


SEARCHED = {
    "loss": "cross-entropy",
    "accuracy": "accuracy, share",
    "entropy": "mean entropy of an edge",
    "expected_macs": "expected MACs",
    "free_share": "share of free operations",
}


def _search(rows: Sequence[Document]) -> list[str]:
    """The course of each phase of the search: one line per exit, or one for what the whole table says."""
    charts: list[str] = []
    for phase in dict.fromkeys(str(row.get("phase", "")) for row in rows):
        mine = [row for row in rows if str(row.get("phase", "")) == phase]
        for name, said in SEARCHED.items():
            values = [row[name] if isinstance(row[name], list) else [row[name]] for row in mine if name in row]
            if len(values) < 2 or not values[0]:
                continue
            many = len(values[0]) > 1
            series = [
                Series(f"exit {e}" if many else said, (0, 4, 2, 6, 3, 8)[e % 6],
                       [(i + 1.0, float(row[e]), 0.0) for i, row in enumerate(values)])
                for e in range(len(values[0]))
            ]  # fmt: skip
            drawn = lines(
                series, name=f"search-{len(charts)}", x="epoch", y=said, origin=1, whole=True, width=360, height=260
            )
            last = [row[-1] for row in values]
            says = f"From {last[0]:.4g} to {last[-1]:.4g} in {len(last)} epochs{', at the last exit' if many else ''}."
            above = legend([(f"s{s.style}", s.name) for s in series]) if many else ""
            charts.append(figure(f"Search{', ' + phase if phase else ''}: {said}", drawn, says, above=above))
    return charts
