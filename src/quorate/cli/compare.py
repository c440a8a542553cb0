"""``quorate compare``: every policy on the same recorded votes."""

import json as json_
from pathlib import Path
from typing import Any

import numpy as np

from quorate.cli.common import describe, judging_of, progress_on, votes_at
from quorate.report.figures import check_figure
from quorate.report.tables import check_output, macs, percent, print_table, write_rows
from quorate.squad.candidates import FAMILIES
from quorate.squad.comparison import DEVICES, Comparison, readings_by
from quorate.squad.comparison import compare as compare_votes

__all__ = ["compare"]


def compare(
    votes: Path,
    /,
    *,
    calibration: str | None = None,
    split: str | None = None,
    policies: tuple[str, ...] = FAMILIES,
    curve: bool = False,
    figure: Path | None = None,
    csv: Path | None = None,
    json: bool = False,
) -> None:
    """Compare every policy on recorded votes: what each needs within 2, 1, 0.5 and 0 points of the static ensemble.

    ```
    quorate compare votes.safetensors
    quorate compare votes.npz --figure curves.svg --csv readings.csv
    ```

    Policies are fitted, and thresholds chosen, on the calibration split and judged on the other; cross-fitted where
    the file has one split only.

    Args:
        votes: a votes file, an .npz, or a run with votes.
        calibration: the split to fit and choose on; by default "calibration" where the file has one.
        split: the split to judge on; by default "test" where the file has one, otherwise all that is not calibration.
        policies: families to compare: static, squad, confidence, cascade, soft, agreement, pool.
        curve: print the thresholds chosen on the judging samples themselves instead (what literature reports).
        figure: draw accuracy against cost into this .png, .svg or .pdf.
        csv: write all readings to this .csv, or everything to this .json.
        json: print JSON instead of tables.
    """
    check_output(csv)
    check_figure(figure)
    recorded = votes_at(votes)[0]
    held, part, which = None, *judging_of(recorded, split)
    splits = [] if recorded.split is None else np.unique(recorded.split).tolist()
    named = calibration or ("calibration" if "calibration" in splits else None)
    if named is not None:
        held = recorded.of(named)
        if which == named:
            held = None
        elif which == "all":
            part, which = recorded.rows(np.flatnonzero(recorded.split != named)), f"all but {named}"
    with progress_on() as progress:
        compared = compare_votes(part, held, policies, progress=progress)
    if csv is not None:
        write_rows(csv, [reading._asdict() for reading in compared.readings], compared.as_json())
    if figure is not None:
        draw(compared, figure)
    if json:
        print(json_.dumps({"votes": votes.name, "split": which, **compared.as_json()}, indent=1))
        return
    print(describe(votes.name, which, part))
    say(compared, "curve" if curve else "calibration")


def draw(compared: Comparison, path: Path) -> None:
    """The curves of the better known policies."""
    from quorate.report.figures import accuracy_against_cost

    def shown(device: str) -> dict[str, Any]:
        walk = "order of arrival" if device == "free-running" else "depth-first"
        wanted = ("SQUAD, mean", "SQUAD, t-test", "one learner, confidence", "cascade of whole learners",
                  f"soft vote so far, {walk}", f"pool, gate, {walk}")  # fmt: skip
        curves = {name: points for name, points in compared.curves[device].items() if name != "static soft vote"}
        return {name: curves[name] for name in wanted if name in curves} or curves

    panels = {f"{DEVICES[device]} ({device})": shown(device) for device in compared.curves}
    static = {
        f"{DEVICES[device]} ({device})": (cost, compared.static_accuracy)
        for device, cost in compared.static_costs.items()
    }
    accuracy_against_cost(path, panels, static, compared.samples)


def say(compared: Comparison, how: str) -> None:
    """A table for each device, the oracle's bound, and who can be told apart."""
    error = (compared.static_accuracy * (1 - compared.static_accuracy) / compared.samples) ** 0.5
    where = {
        "curve": "the judging samples themselves (optimistic)",
        "calibration": "the folds that do not judge it" if compared.calibration is None
        else f"the {compared.calibration:,} calibration samples",
    }[how]  # fmt: skip
    print(
        f"static soft vote {percent(compared.static_accuracy)} (at fitted temperatures), standard error "
        f"{100 * error:.2f} points; each threshold chosen on {where}\n"
    )
    for device, whole in compared.static_costs.items():
        table = readings_by(compared.readings, device, how)
        drops = sorted(next(iter(table.values())), reverse=True)
        rows = []
        for group, cells in sorted(table.items(), key=lambda item: _cost_of(item[1])):
            rows.append([group, *(f"{macs(cells[d].cost, whole)} ({cells[d].drop:+.2f})" if cells[d].cost is not None
                                  else "never" for d in drops)])  # fmt: skip
        for path, (cost, accuracy) in compared.oracle[device].items():
            rows.append([f"oracle on {path.removeprefix('pool, gate, ')}", f"{macs(cost, whole)}: {percent(accuracy)}",
                         *[""] * (len(drops) - 1)])  # fmt: skip
        title = f"{DEVICES[device]}: {device} cost, and points really lost, where so many may be lost"
        print_table([f"static: {macs(whole)}", *(f"{d:g}" for d in drops)], rows, title=title)
    say_duels(compared)


def say_duels(compared: Comparison) -> None:
    """The pool (or SQUAD) against the best of the others."""
    if not compared.duels:
        return
    rows = []
    for duel in compared.duels:
        (low, high), (worse, better) = duel.saved_interval, duel.gained_interval
        rows.append([
            f"{duel.device}, {duel.allowed:g}", mark(duel.champion, duel.champion_keeps),
            mark(duel.rival, duel.rival_keeps),
            f"{100 * duel.saved:.0f} % ({100 * low:.0f} to {100 * high:.0f})",
            f"{duel.gained:+.2f} ({worse:+.2f} to {better:+.2f})", "yes" if duel.told_apart else "no",
        ])  # fmt: skip
    title = "The champion against its rivals; 95 % intervals by paired bootstrap; (!) cannot come so close where chosen"
    print_table(["cost, allowed", "policy", "rival", "cost saved", "accuracy gained", "told apart"], rows, title=title)
    if not all(duel.told_apart for duel in compared.duels):
        print(f"Where it says no, {compared.samples:,} samples cannot tell the two accuracies apart.")


def mark(name: str, keeps: bool) -> str:
    """The name, and a sign where no threshold of the policy keeps what is allowed."""
    return name if keeps else f"{name} (!)"


def _cost_of(cells: dict[float, Any]) -> tuple[float, ...]:
    costs = (cells[d].cost for d in (0.5, 1.0, 2.0, 0.0) if d in cells)
    return tuple(float("inf") if cost is None else cost for cost in costs)
