"""``quorate replay``: a policy over recorded votes, or a sweep over its thresholds."""

import json as json_
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from quorate.cli.common import describe, flat, judge, judging_of, votes_at
from quorate.cli.policy_flags import SQUAD, PolicyFlags
from quorate.report.summary import Summary
from quorate.report.tables import check_output, macs, percent, print_table, write_rows
from quorate.squad import COSTS, Rule, Static, Votes, trace
from quorate.squad.tracing import Stopped

__all__ = ["replay"]

GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)


def replay(
    votes: Path,
    /,
    *,
    flags: Annotated[PolicyFlags, Parameter(name="*")] = SQUAD,
    split: str | None = None,
    sweep: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Replay a policy over recorded votes: accuracy, every cost, exits, pivots, calibration.

    ```
    quorate replay votes.safetensors --threshold 0.9 --criterion t-test
    quorate replay votes.npz --policy confidence --learner 1 --threshold 0.8
    quorate replay votes.safetensors --policy policy.json
    quorate replay votes.safetensors --sweep --out sweep.csv
    ```

    Args:
        votes: a votes file, an .npz with probs (or logits, or log_probs), labels and macs, or a run with votes.
        flags: who decides.
        split: samples of this split only; by default "test" where the file has one, otherwise all.
        sweep: try a grid of thresholds with both criteria of squad.
        out: write the result to this .json or .csv as well.
        json: print JSON instead of tables.
    """
    if sweep and flags.model_copy(update={"significance": None, "panel": None}) != SQUAD:
        raise ValueError("--sweep tries both criteria of squad at many thresholds: only --significance and --panel fit")
    policy = flags.build()
    check_output(out)
    part, which = judging_of(votes_at(votes)[0], split)
    source = {"votes": votes.name, "split": which, "samples": len(part.labels)}
    if sweep:
        rows = sweep_rows(part, policy)
        document: dict[str, Any] = {**source, "sweep": rows}
    else:
        summary, static = judge(part, policy), judge(part, Static())
        document = {**source, "policy": str(policy), **summary.as_json(), "static": static.as_json()}
        rows = [flat(document)]
    if out is not None:
        write_rows(out, rows, document)
    if json:
        print(json_.dumps(document, indent=1))
        return
    print(describe(votes.name, which, part))
    if sweep:
        print_sweep(rows)
    else:
        print_summary(str(policy), summary, static)


def sweep_rows(votes: Votes, rule: Any) -> list[dict[str, Any]]:
    """One row per criterion and threshold of the grid; every stage is evaluated once per criterion."""
    rows = []
    for criterion in ("mean", "t-test") if votes.macs.shape[1] > 1 else ("mean",):
        traced = trace(
            votes.probs, votes.macs, Rule(criterion, significance=rule.significance, panel=rule.panel),
            order=votes.order, arrival=votes.arrival, present=votes.present, chained=votes.chained,
        )  # fmt: skip
        rows += [{"criterion": criterion, "threshold": t, **row(traced.stop(t), votes)} for t in GRID]
    return rows


def row(stopped: Stopped, votes: Votes) -> dict[str, Any]:
    """Accuracy, mean costs and exit ratios at one threshold."""
    exits = np.bincount(stopped.exit, minlength=len(votes.macs)) / len(votes.labels)
    return {
        "accuracy": float((stopped.label == votes.labels).mean()),
        **{name: float(getattr(stopped.costs, field).mean()) for name, field in COSTS.items()},
        **{f"exit {e}": float(share) for e, share in enumerate(exits)},
        "forced": float(1 - stopped.passed.mean()),
    }


def print_summary(name: str, summary: Summary, static: Summary) -> None:
    """Two tables: the policy beside the static ensemble, and what happens at each exit."""
    rows = [
        ["accuracy", percent(summary.accuracy), percent(static.accuracy),
         f"{100 * (summary.accuracy - static.accuracy):+.2f} points"],
    ]  # fmt: skip
    for cost, value in summary.costs.items():
        whole = static.costs[cost]
        saved = "-" if value is None or not whole else f"{100 * (1 - value / whole):.1f} % saved"
        rows.append([TITLES[cost], macs(value, whole), macs(whole), saved])
    for title, field in (("ECE", "ece"), ("AURC", "aurc")):
        rows.append([title, percent(getattr(summary, field)), percent(getattr(static, field)), ""])
    rows.append(["AUROC", f"{summary.auroc:.4f}" if summary.auroc is not None else "-",
                 f"{static.auroc:.4f}" if static.auroc is not None else "-", ""])  # fmt: skip
    print_table(
        ["mean over samples", name.partition(",")[0] if len(name) < 40 else "policy", "static", "difference"],
        rows,
        title=name,
    )
    ranks = range(len(summary.pivots[0]) if summary.pivots else 0)
    columns = ["exit", "left", "forced", *(f"pivot rank {m}" for m in ranks), "ECE of those", "ECE of all", "PPD"]
    rows = []
    for e, (left, forced, error) in enumerate(zip(summary.left, summary.forced, summary.exit_ece, strict=True)):
        pivots = [percent(summary.pivots[e][m], 1) for m in ranks] if summary.pivots else []
        everybody = None if summary.stage_ece is None else summary.stage_ece[e]
        rows.append([str(e), percent(left, 1), percent(forced, 1), *pivots, percent(error), percent(everybody),
                     percent(summary.ppd[e])])  # fmt: skip
    print_table(columns, rows)
    if summary.pivots:
        print("Pivot ranks: share of the stages held at that exit; those of forced answers are left out.")
    if summary.unanswered:
        print(f"{summary.unanswered} samples could not be answered: where they had to be, nobody voted")


TITLES = {
    "f-m": "F_M (K devices in step, latency)",
    "f-mt": "F_MT (K devices in step, energy)",
    "lazy": "lazy (one device)",
    "eager": "eager (one device, whole exits)",
    "free-running": "free-running (K devices, latency)",
    "free-running-energy": "free-running energy",
    "milliseconds": "milliseconds (one device, lazy)",
}


def print_sweep(rows: list[dict[str, Any]]) -> None:
    """The grid as a table."""
    exits = [name for name in rows[0] if name.startswith("exit ")]
    shown = list(COSTS)
    most = max(row["eager"] for row in rows)
    table = [
        [row["criterion"], f"{row['threshold']:g}", percent(row["accuracy"]), *(macs(row[c], most) for c in shown),
         *(percent(row[e], 1) for e in exits), percent(row["forced"], 1)]
        for row in rows
    ]  # fmt: skip
    print_table(["criterion", "threshold", "accuracy", "F_M", "F_MT", *shown[2:], *exits, "forced"], table)
