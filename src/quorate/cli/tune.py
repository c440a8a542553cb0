"""``quorate tune``: choose a policy by wish, and write it to a file that needs numpy alone."""

import json as json_
from pathlib import Path
from typing import Any, Literal

from quorate import __version__
from quorate.cli.common import calibration_of, describe, progress_on, votes_at, warning_lines
from quorate.cli.run_parts import run_parts
from quorate.recipes.config import amount
from quorate.report.figures import check_figure
from quorate.report.frontier import draw_frontier
from quorate.report.tables import check_place, macs, percent, print_table
from quorate.squad import Tuned, Wish
from quorate.squad import tune as tune_votes
from quorate.squad.candidates import FAMILIES
from quorate.store import write_policy
from quorate.store.run import RunFolder, held

__all__ = ["tune"]


def tune(
    votes: Path,
    /,
    *,
    max_drop: float | None = None,
    budget: str | None = None,
    cost: Literal["lazy", "free-running", "free-running-energy", "f-m", "f-mt", "eager", "milliseconds"] = "lazy",
    batch: int = 1,
    policy: Literal["auto", "static", "squad", "confidence", "cascade", "soft", "agreement", "pool"] = "auto",
    costs: Path | None = None,
    backend: str | None = None,
    policies: tuple[str, ...] = FAMILIES,
    threshold: float | None = None,
    split: str | None = None,
    out: Path | None = None,
    figure: Path | None = None,
    json: bool = False,
) -> None:
    """Choose the cheapest policy that keeps what you wish, and say how sure that is.

    ```
    quorate tune runs/cifar10 --max-drop 0.5
    quorate tune runs/cifar10 --budget 200M --cost free-running
    quorate tune votes.safetensors --max-drop 0.5 --out policy.json
    quorate tune votes.npz --max-drop 1 --policies squad --policies cascade
    quorate tune runs/cifar10 --cost milliseconds --batch 32 --backend onnxruntime
    ```

    Every policy is fitted and judged by five-fold cross-fitting; the promise is judged without the samples it was
    chosen on. A run that is tuned decides by the chosen policy from then on, and keeps the promise in `tuning.json`
    and the frontier in `report/frontier.svg`. A policy file is used with `quorate replay VOTES --policy policy.json`.

    Args:
        votes: a finished run, whose votes are recorded first where they are not; or a votes file, or an .npz.
        max_drop: points of accuracy that may be lost against the static soft vote; 0.5 where no budget is given.
        budget: mean cost per sample that must not be exceeded; K, M and G are thousands, millions, billions.
        cost: what is to be saved.
        batch: the batch size whose milliseconds count.
        policy: one family to choose from; auto judges all of them.
        costs: a run, a bundle or a costs.json of `quorate bench`; by default that of the run in which the votes lie.
        backend: whose milliseconds count; by default those measured last.
        policies: families to choose among: static, squad, confidence, cascade, soft, agreement, pool.
        threshold: take this threshold, and choose among policies alone.
        split: samples to choose on; by default "calibration" where the file has one, otherwise all.
        out: write the policy here.
        figure: draw the frontier here, as .svg, .png or .pdf.
        json: print JSON instead of tables.
    """
    wish = Wish(max_drop=max_drop, budget=None if budget is None else amount(budget), cost=cost, batch=batch)
    check_place(out)
    check_figure(figure)
    families = policies if policy == "auto" else (policy,)
    is_run = votes.is_dir()
    if is_run:
        from quorate.train.again import votes_of_run

        run_parts(votes)  # whatever is wrong with it is said before its folder is held
        with held(votes), warning_lines():
            votes_of_run(votes, (split or "calibration",))  # recorded first where they are not
    recorded, measured = votes_at(votes, costs, backend)
    part, which = calibration_of(recorded, split)
    with progress_on() as progress:
        if is_run:
            from quorate.recipes.tuning import tune_run

            tuned = tune_run(votes, part, wish, families, threshold=threshold, split=which, progress=progress)
        else:
            tuned = tune_votes(part, wish, families, progress, threshold=threshold)
    about: dict[str, Any] = {"votes": votes.name, "split": which, "quorate": __version__, **tuned.as_json()}
    if cost == "milliseconds":
        about["measured"] = measured
    if out is not None:
        write_policy(tuned.policy, out, about)
    if figure is not None:
        draw_frontier(figure, tuned)
    if json:
        print(json_.dumps({"policy": str(tuned.policy), **about}, indent=1))
        return
    print(describe(votes.name, which, part))
    if cost == "milliseconds" and measured is not None:
        print(f"Milliseconds of {measured}, batches of {batch}.")
    if which == "all" and part.split is None:
        print("These votes name no splits: judge the policy on other samples than these.")
    say(tuned)
    for written in (out, figure, RunFolder(votes).committee if is_run else None):
        if written is not None:
            print(f"Written: {written}")


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
    if rivals := beaten(tuned):
        print(rivals)
    for note in tuned.notes:
        print(f"Note: {note}.")


def beaten(tuned: Tuned) -> str:
    """By how much the choice beats SQUAD and the cascade, where they can keep the wish too."""
    said = []
    for family, name in (("squad", "SQUAD"), ("cascade", "a cascade of whole learners")):
        point = tuned.best.get(family)
        if point is not None and point.cost > tuned.chosen.cost > 0:
            said.append(f"{100 * (1 - tuned.chosen.cost / point.cost):.0f} % less than {name}")
    return f"It costs {' and '.join(said)}, at the same wish." if said else ""
