"""The first half of the page: who decides, at what cost, and where samples leave.

This file knows the document of results; it computes nothing that :mod:`quorate.report.results` does not.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from quorate.report.bars import bars, stacked
from quorate.report.charts import Series, lines
from quorate.report.markup import Cell, figure, legend, section, table, tile
from quorate.report.saying import of_costs, of_criteria, of_curves, of_exits, of_pivots, points, saved, share
from quorate.report.tables import macs, percent

__all__ = ["TITLES", "Timed", "hero", "operating", "policies", "promise", "summary", "times", "ways"]

Document = Mapping[str, Any]

TITLES = {
    "f-m": "F_M",
    "f-mt": "F_MT",
    "lazy": "lazy",
    "eager": "eager",
    "free-running": "free-running",
    "free-running-energy": "its energy",
    "milliseconds": "milliseconds",
}
AXES = {
    "lazy": "lazy MACs, one device",
    "free-running": "free-running latency, K devices, MACs",
    "free-running-energy": "free-running energy, K devices, MACs",
    "f-m": "F_M: latency, K devices in step, MACs",
    "f-mt": "F_MT: energy, K devices in step, MACs",
    "eager": "eager MACs, one device",
    "milliseconds": "milliseconds, one device, lazy",
}
STYLES = {
    "SQUAD, mean": 0,
    "SQUAD, t-test": 1,
    "pool, gate, depth-first": 2,
    "pool, gate, order of arrival": 3,
    "soft vote so far, depth-first": 4,
    "soft vote so far, order of arrival": 5,
    "cascade of whole learners": 6,
    "agreement": 7,
    "one learner, confidence": 8,
}
DEVICES = {"lazy": "one device", "free-running": "K devices", "milliseconds": "one device, by measured time"}
ON_K = ("free-running", "free-running-energy", "f-m", "f-mt")
NOT_HERE = {"lazy": "order of arrival", "free-running": "depth-first"}


def hero(results: Document) -> Document:
    """The policy that the page is about: the committee's own, or the cheapest on one device that keeps the wish."""
    if results["own"] is not None:
        own: Document = results["own"]
        return own
    rows = [row for row in results["policies"] if row["device"] == "lazy"]
    best: Document = min(rows, key=lambda row: (not row["kept"], row["costs"]["lazy"]))
    return best


def summary(results: Document) -> str:
    """The numbers that matter, large."""
    own, static = hero(results), results["static"]
    tiles = [
        tile(percent(own["accuracy"]), "accuracy",
             f"{points(own['accuracy'] - static['accuracy'])} points against the static soft vote's "
             f"{percent(static['accuracy'])} (± {100 * own['accuracy_error']:.2f})"),
    ]  # fmt: skip
    for cost, said in (("lazy", "MACs on one device"), ("free-running", "latency on K devices")):
        whole, spent = static["costs"][cost], own["costs"][cost]
        tiles.append(tile(saved(spent, whole), said, f"{macs(spent, whole)} of {macs(whole)}"))
    if timed := times(results):
        first, *others = timed
        more = "".join(f"; batches of {t.batch}: {saved(t.policy, t.static)}" for t in others)
        what = "time, one at a time" if first.batch == 1 else f"time, batches of {first.batch}"
        said = f"{first.policy:.3g} of {first.static:.3g} ms an image{more}"
        tiles.append(tile(saved(first.policy, first.static), what, said))
    tiles.append(tile(percent(own["ece"]), "calibration error", f"static soft vote {percent(static['ece'])}"))
    return f'<div class="tiles">{"".join(tiles)}</div>'


class Timed(NamedTuple):
    """Milliseconds an image in batches of one size."""

    batch: int
    policy: float
    static: float


def times(results: Document) -> list[Timed]:
    """What was measured of the committee's own policy and of the static ensemble: benched, or while evaluating."""
    rows = (results.get("bench") or {}).get("rows") or []
    found = {}
    for batch in dict.fromkeys(row["batch"] for row in rows):
        here = [row for row in rows if row["batch"] == batch]
        own = [row["milliseconds"] for row in here if row["name"] == "own" and row["source"] == "lazy"]
        static = [row["milliseconds"] for row in here if row["name"].startswith("static")]
        if own and static:
            found[int(batch)] = Timed(int(batch), own[0], static[0])
    if not found:
        timed = (results.get("engine") or {}).get("milliseconds") or {}
        found = {int(batch): Timed(int(batch), t["policy"], t["static"]) for batch, t in timed.items()}
    return [found[batch] for batch in sorted(found)]


def promise(results: Document) -> str:
    """What tuning promised, beside what came of it."""
    tuned, own, static = results.get("tuning") or {}, results["own"], results["static"]
    if not tuned or own is None or str(tuned.get("policy")) != own["policy"]:
        return ""
    cost = tuned["wish"]["cost"]
    low, high = tuned["drop_interval"]
    drop = 100 * (static["accuracy"] - own["accuracy"])
    came = own["costs"].get(cost)
    inside = "within the interval" if low <= drop <= high else f"{'better' if drop < low else 'worse'} than it"
    said = (
        f"Tuning on {tuned['samples']:,} calibration samples promised a drop of {tuned['drop']:.2f} points (95 % "
        f"interval {low:.2f} to {high:.2f}) at a {cost} cost of {macs(tuned['cost'], tuned['static_cost'])}. "
        f"On test the drop is {drop:.2f} points, {inside}"
    )
    return said + (f", at {macs(came, tuned['static_cost'])}." if came is not None else ".")


def policies(results: Document) -> str:
    """The tables: every policy at the threshold that calibration chooses, for one device and for K."""
    static, wish = results["static"], results["wish"]["max_drop"]
    shown = [c for c in TITLES if static["costs"].get(c) is not None]
    parts = [f'<p class="note">{escape(said)}</p>'] if (said := promise(results)) else []
    devices = list(dict.fromkeys(row["device"] for row in results["policies"]))
    for device in devices:
        rows = [row for row in results["policies"] if row["device"] == device]
        first = [("static", _row("static soft vote", static, static, shown))]
        if results["own"] is not None:
            first.append(("own", _row("the committee's own", results["own"], static, shown)))
        main = [row for row in rows if row["group"] in STYLES and NOT_HERE.get(device, "-") not in row["group"]]
        rest = [row for row in rows if row not in main]
        ranked = sorted(main, key=lambda row: float(row["costs"][_counted(device)]))
        body = first + [("" if row["kept"] else "short", _row(row["group"], row, static, shown)) for row in ranked]
        columns = ["policy", "threshold", "accuracy", "Δ static", *(TITLES[c] for c in shown)]
        parts.append(table(columns, body, name=f"Chosen for {DEVICES[device]} ({device} cost)"))
        if rest:
            more = [("" if row["kept"] else "short", _row(row["group"], row, static, shown)) for row in rest]
            parts.append(f"<details><summary>{len(rest)} more variants</summary>{table(columns, more)}</details>")
    parts.append(_single(results, shown))
    chosen, judged = results["calibration_samples"], results["samples"]
    lead = (
        f"Each threshold is the cheapest that loses at most {wish:g} points against the static soft vote on {chosen:,} "
        f"calibration samples; what stands here was measured on {judged:,} others. Costs are means per sample in MACs, "
        "with their share of the static ensemble's. A dagger: no threshold comes so close on the calibration samples, "
        "the closest one stands here."
    )
    return section("policies", "Every policy, every cost", parts, lead)


def _counted(device: str) -> str:
    return "lazy" if device == "milliseconds" else device


def _row(name: str, row: Document, static: Document, shown: Sequence[str]) -> list[Cell]:
    cells: list[Cell] = [(name + ("" if row.get("kept", True) else " †"), _variant(name, row))]
    cells.append(f"{row['threshold']:.4g}" if row.get("threshold") is not None else "")
    cells.append((percent(row["accuracy"]), f"± {100 * row['accuracy_error']:.2f}"))
    cells.append("" if row is static else points(row["accuracy"] - static["accuracy"]))
    for cost in shown:
        whole = static["costs"][cost]
        mine = row["costs"].get(cost)
        cells.append((macs(mine, whole), share(mine, whole) if row is not static else ""))
    return cells


def _variant(name: str, row: Document) -> str:
    said = row.get("variant", row.get("policy", ""))
    return "" if name in (said, "static soft vote") else str(said).removeprefix("pool, gate, ")


def _single(results: Document, shown: Sequence[str]) -> str:
    """Each learner alone."""
    static, rows = results["static"], []
    for one in results["alone"]:
        name = results["learners"][one["learner"]]["name"]
        rows.append(("", _row(f"{name}, whole", {**one["static"], "variant": ""}, static, shown)))
        if "confidence" in one:
            row = {**one["confidence"], "variant": ""}
            rows.append(("" if row["kept"] else "short", _row(f"{name}, confidence exit", row, static, shown)))
    columns = ["learner", "threshold", "accuracy", "Δ static", *(TITLES[c] for c in shown)]
    return table(columns, rows, name="Each learner alone")


def operating(results: Document) -> str:
    """Accuracy against every cost over thresholds, and the slider that moves the operating point."""
    static, sweeps = results["static"], results["sweeps"]
    if not sweeps:
        return ""
    charts = []
    for cost in (c for c in AXES if any(c in s["costs"] for s in sweeps)):
        drawn = _curves(results, cost)
        if drawn:
            charts.append(figure(AXES[cost], drawn, _says(results, cost)))
    stroke = '<path class="line" d="M1 5H21"/></svg>'
    buttons = "".join(
        f'<button type="button" data-pick="{i}"><svg viewBox="0 0 22 10" aria-hidden="true" '
        f'class="s{STYLES[s["group"]]}">{stroke}{s["group"]}</button>'
        for i, s in enumerate(sweeps)
    )
    exits = "".join(f'<i class="b{min(e, 7)}" title="exit {e}"></i>' for e in range(results["exits"]))
    panel = (
        f'<div class="panel" id="panel"><div class="picks" role="group" aria-label="policy">{buttons}</div>'
        '<label for="slider">threshold <output id="threshold"></output></label>'
        '<input id="slider" type="range" min="0" max="1" step="1" value="0">'
        '<div class="jumps"><button type="button" id="to-lazy">chosen for one device</button>'
        '<button type="button" id="to-free-running">chosen for K devices</button></div>'
        f'<div class="readings" id="readings"></div><div class="exits" id="exits">{exits}'
        '<i class="bf" title="forced"></i></div><p class="note" id="exits-said"></p></div><noscript><p class="note">'
        "The slider needs JavaScript; the points that calibration chose are marked in the charts.</p></noscript>"
    )
    keep = ("group", "thresholds", "accuracy", "accuracy_error", "costs", "left", "forced", "chosen")
    data = {
        "sweeps": [{k: s[k] for k in keep} for s in sweeps],
        "static": {"accuracy": static["accuracy"], "costs": static["costs"]},
        "titles": TITLES,
    }
    script = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    lead = (
        "Every line is a sweep over thresholds on the test samples, shaded by one standard error; a dot is the point "
        "that calibration chose. Pick a policy and move its threshold: the ring moves in all charts at once."
    )
    parts = [panel, f'<div class="grid-2">{"".join(charts)}</div>',
             f'<script type="application/json" id="sweeps">{script}</script>']  # fmt: skip
    return section("operating", "Move the operating point", parts, lead)


def _curves(results: Document, cost: str) -> str:
    static = results["static"]
    device = "free-running" if cost in ON_K else "lazy"
    drawn = []
    for s in results["sweeps"]:
        if not _drawn(s, cost):
            continue
        rows = zip(s["costs"][cost], s["accuracy"], s["accuracy_error"], strict=True)
        at = [(c, 100 * a, 100 * e) for c, a, e in rows]
        chosen = s["chosen"].get("milliseconds" if cost == "milliseconds" else device, s["chosen"][device])
        drawn.append(Series(s["group"], STYLES[s["group"]], at, {chosen: ""}))
    best = 100 * static["accuracy"]
    chosen_low = min((s.points[i][1] for s in drawn for i in s.marks), default=best)
    lowest = min((p[1] for s in drawn for p in s.points), default=best)
    low = max(lowest, min(chosen_low - 1, best - 6))
    return lines(
        list(reversed(drawn)), name=f"cost-{cost}", x=AXES[cost], y="accuracy, %",
        level=(best, f"static soft vote, {macs(static['costs'][cost])}"), low=low,
    ) if drawn else ""  # fmt: skip


def _says(results: Document, cost: str) -> str:
    if cost in ("f-m", "f-mt"):
        return of_criteria(results["sweeps"], cost)
    return of_curves([s for s in results["sweeps"] if _drawn(s, cost)], results["static"], cost)


def _drawn(sweep: Document, cost: str) -> bool:
    """Whether a policy has this cost and is meant for its device."""
    device = "free-running" if cost in ON_K else "lazy"
    there = cost in sweep["costs"] and NOT_HERE[device] not in sweep["group"]
    return there and (device == "lazy" or "cascade" not in sweep["group"])


def ways(results: Document) -> str:
    """What an answer costs at a glance, where samples leave, and who settles a stage."""
    parts = []
    static = results["static"]
    for device in ("lazy", "free-running"):
        rows = [row for row in results["policies"] if row["device"] == device and row["group"] in STYLES
                and NOT_HERE[device] not in row["group"]]  # fmt: skip
        rows.sort(key=lambda row: row["costs"][device])
        whole = static["costs"][device]
        drawn = bars([
            (row["group"] + ("" if row["kept"] else " †"), row["costs"][device] / (whole or 1),
             f"{share(row['costs'][device], whole)}, {points(row['accuracy'] - static['accuracy'])} points",
             STYLES[row["group"]])
            for row in rows
        ])  # fmt: skip
        parts.append(figure(f"Cost on {DEVICES[device]}, of the static ensemble's", drawn,
                            of_costs(rows, static, device, results["wish"]["max_drop"])))  # fmt: skip
    named = [(row["group"], row["left"], sum(row["forced"])) for row in results["policies"]
             if row["device"] == "lazy" and row["group"] in STYLES and "arrival" not in row["group"]]  # fmt: skip
    if results["own"] is not None:
        named.insert(0, ("the committee's own", results["own"]["left"], sum(results["own"]["forced"])))
    parts.append(figure("Where samples leave", stacked(named), of_exits(named),
                        above=_exit_legend(results["exits"])))  # fmt: skip
    parts.append(_pivots(results))
    return section("ways", "What an answer costs, and where it comes from",
                   [f'<div class="grid-2">{"".join(parts)}</div>'])  # fmt: skip


def _exit_legend(exits: int) -> str:
    return legend([*((f"x{min(e, 7)}", f"exit {e}") for e in range(exits)), ("forced", "forced answers")])


def _pivots(results: Document) -> str:
    """Which rank settles the stages held at each exit, for both criteria."""
    rows, said, ranks = [], [], 0
    for group in ("SQUAD, mean", "SQUAD, t-test"):
        row = next((r for r in results["policies"] if r["group"] == group and r["device"] == "lazy"), None)
        if row is None or not row["pivots"]:
            continue
        ranks = len(row["pivots"][0])
        said.append(of_pivots(row))
        for e, by_rank in enumerate(row["pivots"]):
            shares = [x or 0.0 for x in by_rank]
            if any(x is not None for x in by_rank):
                rows.append((f"{group}, exit {e}", shares, max(0.0, 1 - sum(shares))))
    if not rows:
        return ""
    colours = legend([*((f"x{min(m, 7)}", f"vote {m + 1}") for m in range(ranks)), ("forced", "forced")])
    return figure("Which vote settles a stage", stacked(rows, "rank"), " ".join(said), above=colours)
