"""``quorate tune``: choose a policy by wish, and write it to a file that needs numpy alone."""

import json as json_
from pathlib import Path
from typing import Any, Literal

from quorate import __version__
from quorate.cli.common import calibration_of, describe, progress_on, votes_at
from quorate.report.tables import check_place, macs, percent, print_table
from quorate.squad import Tuned, Wish
from quorate.squad import tune as tune_votes
from quorate.squad.candidates import FAMILIES
from quorate.store import write_policy

__all__ = ["tune"]


def tune(
    votes: Path,
    /,
    *,
    max_drop: float | None = None,
    budget: str | None = None,
    cost: Literal["lazy", "free-running", "free-running-energy", "f-m", "f-mt", "eager", "milliseconds"] = "lazy",
    batch: int = 1,
    costs: Path | None = None,
    backend: str | None = None,
    policies: tuple[str, ...] = FAMILIES,
    split: str | None = None,
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Choose the cheapest policy that keeps what you wish, and say how sure that is.

    ```
    quorate tune votes.safetensors --max-drop 0.5 --out policy.json
    quorate tune votes.safetensors --budget 200M --cost free-running
    quorate tune votes.npz --max-drop 1 --policies squad --policies cascade
    quorate tune runs/cifar10 --cost milliseconds --batch 32 --backend onnxruntime
    ```

    Every policy is fitted and judged by five-fold cross-fitting; the promise is judged without the samples it was
    chosen on. The file is used with `quorate replay VOTES --policy policy.json`.

    Args:
        votes: a votes file, an .npz, or the folder of a run with recorded votes.
        max_drop: points of accuracy that may be lost against the static soft vote; 0.5 where no budget is given.
        budget: mean cost per sample that must not be exceeded; K, M and G are thousands, millions, billions.
        cost: what is to be saved.
        batch: the batch size whose milliseconds count.
        costs: a run, a bundle or a costs.json of `quorate bench`; by default that of the run in which the votes lie.
        backend: whose milliseconds count; by default those measured last.
        policies: families to choose among: static, squad, confidence, cascade, soft, agreement, pool.
        split: samples to choose on; by default "calibration" where the file has one, otherwise all.
        out: write the policy here.
        json: print JSON instead of tables.
    """
    wish = Wish(max_drop=max_drop, budget=None if budget is None else amount(budget), cost=cost, batch=batch)
    check_place(out)
    recorded, measured = votes_at(votes, costs, backend)
    part, which = calibration_of(recorded, split)
    with progress_on() as progress:
        tuned = tune_votes(part, wish, policies, progress)
    about: dict[str, Any] = {"votes": votes.name, "split": which, "quorate": __version__, **tuned.as_json()}
    if cost == "milliseconds":
        about["measured"] = measured
    if out is not None:
        write_policy(tuned.policy, out, about)
    if json:
        print(json_.dumps({"policy": str(tuned.policy), **about}, indent=1))
        return
    print(describe(votes.name, which, part))
    if cost == "milliseconds" and measured is not None:
        print(f"Milliseconds of {measured}, batches of {batch}.")
    if which == "all" and part.split is None:
        print("These votes name no splits: judge the policy on other samples than these.")
    say(tuned)
    if out is not None:
        print(f"Written: {out}")


def amount(text: str) -> float:
    """A number with K, M or G behind it.

    Example:
        >>> amount("200M"), amount("1.5k"), amount("12")
        (200000000.0, 1500.0, 12.0)
    """
    units = {"k": 1e3, "m": 1e6, "g": 1e9}
    number, unit = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError as error:
        raise ValueError(f"budget must be a number such as 200M or 1.5G, got {text!r}") from error


def say(tuned: Tuned) -> None:
    """The choice, the promise, and what each family would have needed."""
    wish, whole = tuned.wish, tuned.static_cost
    print(f"\nChosen: {tuned.policy}")
    if not tuned.kept:
        print("The wish cannot be kept on these samples; this comes closest.")
    low, high = tuned.drop_interval
    cheap, dear = tuned.cost_interval
    print(
        f"Promised: {percent(tuned.accuracy)} (static, at fitted temperatures: {percent(tuned.static_accuracy)}), "
        f"a drop of {tuned.drop:.2f} points, 95 % interval {low:.2f} to {high:.2f} on {tuned.samples:,} samples;\n"
        f"{wish.cost} cost {macs(tuned.cost, whole)} ({macs(cheap, whole)} to {macs(dear, whole)}) "
        f"of the static ensemble's {macs(whole)}."
    )
    rows = []
    chosen = tuned.chosen.cost
    for family, point in sorted(tuned.best.items(), key=lambda item: item[1].cost if item[1] else float("inf")):
        if point is None:
            rows.append([family, "cannot keep it", "", "", "", ""])
        else:
            times = f"{point.cost / chosen:.2f} x" if chosen else "-"
            rows.append([point.name, f"{point.threshold:.4g}", percent(point.accuracy), f"{point.drop:.2f}",
                         macs(point.cost, whole), times])  # fmt: skip
    title = "The best of each family that keeps the wish, on the samples they were chosen on"
    print()
    print_table(["policy", "threshold", "accuracy", "drop", wish.cost, "of the chosen"], rows, title=title)
    for note in tuned.notes:
        print(f"Note: {note}.")
