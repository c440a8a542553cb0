"""What a reader should see in each figure, in a sentence made from its numbers.

This file knows the document of results, and nothing of pages.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from quorate.report.answers import confused
from quorate.report.tables import macs, percent

__all__ = [
    "of_agreement",
    "of_calibration",
    "of_classes",
    "of_costs",
    "of_criteria",
    "of_curves",
    "of_disagreement",
    "of_exits",
    "of_pivots",
    "of_training",
    "points",
    "saved",
    "sentence",
    "share",
]

Document = Mapping[str, Any]
Array = np.ndarray[Any, Any]


def points(value: float) -> str:
    """A difference in points of accuracy.

    Example:
        >>> points(-0.0051), points(0.00001)
        ('-0.51', '0.00')
    """
    said = f"{100 * value:+.2f}"
    return "0.00" if said in ("+0.00", "-0.00") else said


def share(part: float | None, whole: float | None) -> str:
    """One cost as a share of another.

    Example:
        >>> share(1, 4), share(None, 4)
        ('25 %', '')
    """
    return "" if part is None or not whole else f"{100 * part / whole:.0f} %"


def saved(part: float | None, whole: float | None) -> str:
    """What is saved of a cost.

    Example:
        >>> saved(1, 4), saved(5, 4)
        ('75 % saved', '25 % more')
    """
    if part is None or not whole:
        return "-"
    less = 100 * (1 - part / whole)
    return f"{less:.0f} % saved" if less >= 0 else f"{-less:.0f} % more"


def told_apart(one: Document, other: Document) -> bool:
    """Whether two accuracies on the same samples differ by more than two (cautious, unpaired) standard errors."""
    error = np.hypot(one["accuracy_error"], other["accuracy_error"])
    return bool(abs(one["accuracy"] - other["accuracy"]) > 2 * error)


def of_costs(rows: Sequence[Document], static: Document, device: str, allowed: float) -> str:
    """The cheapest policy on a device that keeps what is allowed where it was chosen, beside SQUAD."""
    kept = [row for row in rows if row["kept"] and row["costs"].get(device) is not None]
    if not kept:
        return f"No policy keeps within {allowed:g} points of the static soft vote on the calibration samples."
    best = min(kept, key=lambda row: row["costs"][device])
    whole = static["costs"][device]
    drop = 100 * (static["accuracy"] - best["accuracy"])
    said = (
        f"{best['group']} is the cheapest that loses at most {allowed:g} points on the calibration samples: "
        f"{macs(best['costs'][device], whole)}, {share(best['costs'][device], whole)} of the static ensemble, "
        f"and on test it {'loses' if drop >= 0 else 'gains'} {abs(drop):.2f} points."
    )
    rules = [row for row in kept if row["family"] == "squad" and row is not best]
    if rules:
        rule = min(rules, key=lambda row: row["costs"][device])
        if best["costs"][device]:
            said += f" {rule['group']} needs {rule['costs'][device] / best['costs'][device]:.2f} times as much."
    over = [row["group"] for row in kept if 100 * (static["accuracy"] - row["accuracy"]) > allowed + 0.005]
    if over:
        said += f" {len(over)} of {len(kept)} lose more than that on test."
    return sentence(said)


def of_curves(sweeps: Sequence[Document], static: Document, cost: str) -> str:
    """What each policy needs at the static ensemble's accuracy, read from the curves."""
    reach = []
    level = static["accuracy"] - 1e-5  # sweeps are rounded to six digits
    for sweep in sweeps:
        enough = [c for c, a in zip(sweep["costs"][cost], sweep["accuracy"], strict=True) if a >= level]
        if enough:
            reach.append((min(enough), sweep["group"]))
    whole = static["costs"][cost]
    never = [s["group"] for s in sweeps if s["group"] not in {group for _, group in reach}]
    said = ""
    if reach:
        least, first = min(reach)
        said = f"{first} is the first to reach the static ensemble's accuracy, at {share(least, whole)} of its cost"
        others = ", ".join(f"{group} at {share(c, whole)}" for c, group in sorted(reach)[1:4])
        said += f"; {others}." if others else "."
    if not reach:
        return "No policy reaches the static ensemble's accuracy at any threshold."
    if never:
        said += f" Never there: {', '.join(never)}."
    return sentence(said + " (Read from the curves themselves, which flatters all of them.)")


def sentence(said: str) -> str:
    """With a capital, as a sentence begins.

    Example:
        >>> sentence("pool wins.")
        'Pool wins.'
    """
    return said[:1].upper() + said[1:]


def of_criteria(sweeps: Sequence[Document], cost: str) -> str:
    """Which of the two exit tests is more accurate at equal cost, over the costs that both reach."""
    curves = {s["group"]: (np.array(s["costs"][cost]), np.array(s["accuracy"])) for s in sweeps if cost in s["costs"]}
    if not {"SQUAD, mean", "SQUAD, t-test"} <= set(curves):
        return ""
    mean_cost, mean_right = _sorted(*curves["SQUAD, mean"])
    test_cost, test_right = _sorted(*curves["SQUAD, t-test"])
    low, high = max(mean_cost[0], test_cost[0]), min(mean_cost[-1], test_cost[-1])
    if not high > low:
        return "The two criteria of SQUAD reach no common cost."
    at = np.linspace(low, high, 200)
    gap = 100 * float((np.interp(at, test_cost, test_right) - np.interp(at, mean_cost, mean_right)).mean())
    if abs(gap) < 0.05:
        return "At equal cost the t-test and the mean are the same to a twentieth of a point."
    return (
        f"At equal cost the {'t-test' if gap > 0 else 'mean'} is {abs(gap):.2f} points more accurate than the "
        f"{'mean' if gap > 0 else 't-test'}, averaged over the costs that both reach."
    )


def _sorted(cost: Array, right: Array) -> tuple[Array, Array]:
    order = np.argsort(cost, kind="stable")
    return cost[order], right[order]


def of_exits(rows: Sequence[tuple[str, Sequence[float], float]]) -> str:
    """Who lets most samples leave at once, who fewest, and how many answers are forced."""
    first = sorted(rows, key=lambda row: row[1][0])
    few, most = first[0], first[-1]
    forced = max(rows, key=lambda row: row[2])
    said = f"{100 * most[1][0]:.0f} % of the samples leave at exit 0 with {most[0]}"
    if len(rows) > 1 and most is not few:
        said += f", {100 * few[1][0]:.0f} % with {few[0]}"
    said += f". Answers are forced most often with {forced[0]}, {100 * forced[2]:.1f} %" if forced[2] else ""
    return said + "."


def of_pivots(entry: Document) -> str:
    """How often the last vote is needed, and where most."""
    table = np.array(entry["pivots"], dtype=float)
    last = table[:, -1]
    held = np.flatnonzero(np.isfinite(last))
    if not len(held):
        return ""
    first = held[0]
    e = held[np.nanargmax(last[held])]
    settled = 100 * float(np.nansum(table[first, :-1]))
    return (
        f"{entry['group']}: at exit {first} {settled:.0f} % of the stages are settled before the last learner votes; "
        f"its vote settles most at exit {e}, {100 * last[e]:.0f} %."
    )


def of_disagreement(ppd: Sequence[float | None], samples: int) -> str:
    """Where the learners differ most."""
    known = [(e, value) for e, value in enumerate(ppd) if value is not None]
    if not known:
        return "There is one learner, who cannot disagree."
    most, least = max(known, key=lambda x: x[1]), min(known, key=lambda x: x[1])
    error = 100 * (most[1] * (1 - most[1]) / samples) ** 0.5
    said = (
        f"Two learners differ most at exit {most[0]}, on {percent(most[1], 1)} of the samples "
        f"(standard error at most {error:.1f} points)"
    )
    return said + (f", and least at exit {least[0]}, on {percent(least[1], 1)}." if most[0] != least[0] else ".")


def of_calibration(entry: Document, static: Document, bins: Sequence[Document | None]) -> str:
    """Whether confidence is too high or too low, against the static ensemble, and at which exit worst."""
    there = [b for b in bins if b is not None]
    n = sum(b["samples"] for b in there)
    gap = sum(b["samples"] * (b["confidence"] - b["accuracy"]) for b in there) / max(1, n)
    tone = "over-confident" if gap > 0 else "under-confident"
    said = (
        f"Overall the policy is {tone} by {abs(100 * gap):.1f} points (ECE {percent(entry['ece'])}, static ensemble "
        f"{percent(static['ece'])})."
    )
    worst = [(value, e) for e, value in enumerate(entry["exit_ece"]) if value is not None]
    if len(worst) > 1:
        value, e = max(worst)
        said += f" Those who leave at exit {e} are called worst: {percent(value)}."
    return said


def of_classes(answered: Document, classes: Sequence[str]) -> str:
    """The hardest class and the most frequent mistake."""
    known = [(row["accuracy"], c) for c, row in enumerate(answered["per_class"]) if row["accuracy"] is not None]
    (worst, hard), (best, easy) = min(known), max(known)
    said = f"{classes[hard]} is hardest ({percent(worst, 1)} right), "
    whole = sum(right == 1 for right, _ in known)
    said += f"{classes[easy]} easiest ({percent(best, 1)})." if whole < 2 else f"{whole} classes are always right."
    pairs = confused(answered["confusion"], 1)
    if pairs:
        i, j, count = pairs[0]
        said += f" The most frequent mistake is {classes[i]} answered as {classes[j]}, {count} times."
    return said


def of_agreement(engine: Document) -> str:
    """Whether the engine answers as the replay does."""
    if not engine["differing"]:
        return f"all {engine['samples']:,} answers and exits agree"
    return (
        f"{engine['differing']:,} of {engine['samples']:,} answers or exits differ, by the rounding of recorded votes"
    )


def of_training(history: Sequence[Document]) -> str:
    """Where a training ended, and whether it had settled."""
    rows = [row for row in history if row.get("calibration_accuracy")]
    if not rows:
        return ""
    last = [row["calibration_accuracy"][-1] for row in rows]
    best = int(np.argmax(last))
    epochs = f"{len(rows)} epoch{'s' * (len(rows) > 1)}"
    said = f"After {epochs} the last exit is right on {percent(last[-1])} of the held-out images"
    if last[best] == last[-1]:
        return said + ": its best so far, so it may not have settled." if len(rows) > 1 else said + "."
    return said + f"; its best was {percent(last[best])} in epoch {best + 1}."
