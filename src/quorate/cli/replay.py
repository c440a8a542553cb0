"""``quorate replay``: a policy over recorded votes, or a sweep over its thresholds."""

import json as json_
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quorate.report.summary import Summary, summarise
from quorate.report.tables import macs, percent, print_table, write_rows
from quorate.squad import Confidence, Outcome, Policy, Rule, Static, Votes
from quorate.squad import replay as replay_votes
from quorate.squad.tracing import Stopped, trace
from quorate.store import read_votes

__all__ = ["replay"]

GRID = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)


def replay(
    votes: Path,
    /,
    *,
    policy: Literal["squad", "static", "confidence"] = "squad",
    threshold: float = 0.9,
    criterion: Literal["t-test", "mean"] = "t-test",
    significance: float = 0.05,
    panel: Literal["pivot", "all"] = "pivot",
    learner: int = 0,
    split: str | None = None,
    sweep: bool = False,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Replay a policy over recorded votes: accuracy, every cost, exits, pivots, calibration.

    ```
    quorate replay votes.safetensors --threshold 0.9 --criterion t-test
    quorate replay votes.npz --policy confidence --learner 1 --threshold 0.8
    quorate replay votes.safetensors --sweep --out sweep.csv
    ```

    Args:
        votes: a votes file, or an .npz with probs (or logits, or log_probs), labels and macs.
        policy: who decides.
        threshold: in [0, 1); stop when the bound, or the confidence, is above it.
        criterion: the exit test of squad.
        significance: alpha of squad's t-test.
        panel: whose confidences squad tests: those up to the pivot, or all who agree.
        learner: which one, for the policy confidence.
        split: samples of this split only; by default "test" where the file has one, otherwise all.
        sweep: try a grid of thresholds with both criteria of squad.
        out: write the result to this .json or .csv as well.
        json: print JSON instead of tables.
    """
    recorded = read_votes(votes)
    part, which = choose_split(recorded, split)
    source = {"votes": votes.name, "split": which, "samples": len(part.labels)}
    if sweep:
        document: dict[str, Any] = {**source, "sweep": sweep_rows(part, significance, panel)}
        rows = document["sweep"]
    else:
        named: dict[str, Policy] = {
            "squad": Rule(criterion, threshold, significance, panel),
            "static": Static(),
            "confidence": Confidence(learner, threshold),
        }
        chosen = named[policy]
        summary, static = (judge(part, p) for p in (chosen, Static()))
        document = {**source, "policy": str(chosen), **summary.as_json(), "static": static.as_json()}
        rows = [flat(document)]
    if out is not None:
        write_rows(out, rows, document)
    if json:
        print(json_.dumps(document, indent=1))
    elif sweep:
        print(describe(part, source))
        print_sweep(rows)
    else:
        print(describe(part, source))
        print_summary(str(chosen), summary, static)


def choose_split(votes: Votes, split: str | None) -> tuple[Votes, str]:
    """The samples to judge on, and what to call them."""
    if split is None and (votes.split is None or "test" not in votes.split):
        return votes, "all"
    return votes.of(split or "test"), split or "test"


def decide(votes: Votes, policy: Policy) -> Outcome:
    """:func:`quorate.squad.replay` with all that the file says."""
    return replay_votes(
        votes.probs, votes.macs, policy, order=votes.order, arrival=votes.arrival, present=votes.present,
        chained=votes.chained,
    )  # fmt: skip


def judge(votes: Votes, policy: Policy) -> Summary:
    """A policy's summary on labelled votes; a static ensemble's F_M and F_MT are its free-running costs."""
    summary = summarise(decide(votes, policy), votes.labels, votes.macs.shape[1])
    if isinstance(policy, Static):
        summary.costs["f-m"] = summary.costs["free-running"]
        summary.costs["f-mt"] = summary.costs["free-running-energy"]
    return summary


def sweep_rows(votes: Votes, significance: float, panel: Literal["pivot", "all"]) -> list[dict[str, Any]]:
    """One row per criterion and threshold of the grid; every stage is evaluated once per criterion."""
    rows = []
    criteria: tuple[Literal["mean", "t-test"], ...] = ("mean", "t-test") if votes.macs.shape[1] > 1 else ("mean",)
    for criterion in criteria:
        rule = Rule(criterion, significance=significance, panel=panel)
        traced = trace(
            votes.probs, votes.macs, rule, order=votes.order, arrival=votes.arrival, present=votes.present,
            chained=votes.chained,
        )  # fmt: skip
        rows += [{"criterion": criterion, "threshold": t, **row(traced.stop(t), votes)} for t in GRID]
    return rows


def row(stopped: Stopped, votes: Votes) -> dict[str, Any]:
    """Accuracy, mean costs and exit ratios at one threshold."""
    from quorate.squad import COSTS

    exits = np.bincount(stopped.exit, minlength=len(votes.macs)) / len(votes.labels)
    return {
        "accuracy": float((stopped.label == votes.labels).mean()),
        **{name: float(getattr(stopped.costs, field).mean()) for name, field in COSTS.items()},
        **{f"exit {e}": float(share) for e, share in enumerate(exits)},
        "forced": float(1 - stopped.passed.mean()),
    }


def flat(document: dict[str, Any]) -> dict[str, Any]:
    """One row of a CSV: nested tables become columns."""
    cells: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, dict):
            cells |= {f"{name} {inner}": x for inner, x in flat(value).items()}
        elif isinstance(value, list):
            cells |= {f"{name} {inner}": x for inner, x in flat({str(i): x for i, x in enumerate(value)}).items()}
        else:
            cells[name] = value
    return cells


def describe(votes: Votes, source: dict[str, Any]) -> str:
    """One line that says what is being judged."""
    num_exits, num_learners, n, classes = votes.probs.shape
    return (
        f"{source['votes']}, split {source['split']}: {n:,} samples, {num_learners} learners, "
        f"{num_exits} exits, {classes} classes"
    )


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
    print_table(["mean over samples", name.partition(",")[0], "static", "difference"], rows, title=name)
    ranks = range(len(summary.pivots[0]) if summary.pivots else 0)
    columns = ["exit", "left", "forced", *(f"pivot rank {m}" for m in ranks), "ECE of those"]
    rows = []
    for e, (left, forced, error) in enumerate(zip(summary.left, summary.forced, summary.exit_ece, strict=True)):
        pivots = [percent(summary.pivots[e][m], 1) for m in ranks] if summary.pivots else []
        rows.append([str(e), percent(left, 1), percent(forced, 1), *pivots, percent(error)])
    print_table(columns, rows)
    if summary.pivots:
        print("Pivot ranks: share of the stages held at that exit; those of forced answers are left out.")
    if summary.unanswered:
        print(f"{summary.unanswered} samples could not be answered: none of their branches voted")


TITLES = {
    "f-m": "F_M (K devices in step, latency)",
    "f-mt": "F_MT (K devices in step, energy)",
    "lazy": "lazy (one device)",
    "eager": "eager (one device, whole exits)",
    "free-running": "free-running (K devices, latency)",
    "free-running-energy": "free-running energy",
}


def print_sweep(rows: list[dict[str, Any]]) -> None:
    """The grid as a table."""
    exits = [name for name in rows[0] if name.startswith("exit ")]
    shown = ["f-m", "f-mt", "lazy", "free-running"]
    most = max(row["eager"] for row in rows)
    table = [
        [row["criterion"], f"{row['threshold']:g}", percent(row["accuracy"]), *(macs(row[c], most) for c in shown),
         *(percent(row[e], 1) for e in exits), percent(row["forced"], 1)]
        for row in rows
    ]  # fmt: skip
    print_table(["criterion", "threshold", "accuracy", "F_M", "F_MT", "lazy", "free-running", *exits, "forced"], table)
