"""What commands over recorded votes share: which samples, which policy, what is said of them, progress.

This file prints, and decides nothing.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from quorate.report.summary import judge
from quorate.squad import Votes

__all__ = ["calibration_of", "describe", "flat", "judge", "judging_of", "progress_on"]


def judging_of(votes: Votes, split: str | None) -> tuple[Votes, str]:
    """The samples to judge on: of the split named, else of "test" where there is one, else all."""
    if split is None and (votes.split is None or "test" not in votes.split):
        return votes, "all"
    return votes.of(split or "test"), split or "test"


def calibration_of(votes: Votes, split: str | None) -> tuple[Votes, str]:
    """The samples to choose on: of the split named, else of "calibration" where there is one, else all."""
    if split is None and (votes.split is None or "calibration" not in votes.split):
        return votes, "all"
    return votes.of(split or "calibration"), split or "calibration"


def describe(name: str, split: str, votes: Votes) -> str:
    """One line that says which samples are meant."""
    num_exits, num_learners, n, classes = votes.probs.shape
    return f"{name}, split {split}: {n:,} samples, {num_learners} learners, {num_exits} exits, {classes} classes"


def flat(document: dict[str, Any]) -> dict[str, Any]:
    """One row of a CSV: nested tables become columns."""
    cells: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, dict | list):
            inside = value if isinstance(value, dict) else {str(i): x for i, x in enumerate(value)}
            cells |= {f"{name} {inner}": x for inner, x in flat(inside).items()}
        else:
            cells[name] = value
    return cells


@contextmanager
def progress_on(quiet: bool = False) -> Iterator[Callable[[str, int, int], None] | None]:
    """A progress bar with the time left, on standard error; plain lines every ten seconds without a terminal."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


def _lines() -> Callable[[str, int, int], None]:
    started = said = time.monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= 10 and done:
            said = now
            left = (now - started) / done * (total - done)
            print(f"{what}: {done} of {total}, {left:.0f} s left", file=sys.stderr, flush=True)

    return say
