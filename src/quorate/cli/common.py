"""What commands over recorded votes share: which samples, which policy, what is said of them, progress.

This file prints, and decides nothing.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from quorate.errors import QuorateError
from quorate.report.summary import judge
from quorate.squad import Votes
from quorate.store import read_votes
from quorate.store.run import RunFolder
from quorate.store.timings import best_fit, read_timings

__all__ = [
    "calibration_of",
    "describe",
    "flat",
    "judge",
    "judging_of",
    "progress_on",
    "votes_at",
    "warning_lines",
]


def votes_at(path: Path, costs: Path | None = None, backend: str | None = None) -> tuple[Votes, str | None]:
    """The votes of a file or of a run, with the milliseconds that ``quorate bench`` measured of their branches.

    Args:
        path: the votes, or the folder of the run that recorded them.
        costs: a run, a bundle or a ``costs.json``; None: those of the run in which the votes lie, where there are any.
        backend: whose milliseconds; None: those measured last.

    Returns:
        The votes, and what was measured where, in words; None where nothing was.

    Raises:
        QuorateError: either cannot be read, or they are of different committees.
    """
    file = RunFolder(path).votes if path.is_dir() else path
    votes = read_votes(file)
    run = file.absolute().parent.parent
    where = costs or (run if RunFolder(run).committee.is_file() else None)
    timings = () if where is None else read_timings(where, votes.macs.shape)
    timing = best_fit(timings, backend)
    if timing is None:
        if costs is not None or backend is not None:
            known = ", ".join(sorted({one.backend for one in timings})) or "none"
            raise QuorateError(
                f"{where or file}: no milliseconds of {backend or 'any backend'} were measured ({known}): "
                "run `quorate bench`"
            )
        return votes, None
    said = f"{timing.backend} on {timing.hardware.get('processor', timing.device)}, {timing.threads} threads"
    return votes._replace(milliseconds=timing.milliseconds), said


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


def _lines(clock: Callable[[], float] = time.monotonic) -> Callable[[str, int, int], None]:
    """A line every ten seconds; a total that changes, or counting that begins again, is another piece of work."""
    said = clock()
    began: tuple[float, int, int] | None = None
    last = 0

    def say(what: str, done: int, total: int) -> None:
        nonlocal said, began, last
        now = clock()
        if began is None or total != began[2] or done < last:
            began = now, done, total
        last = done
        if now - said >= 10 and done > began[1]:
            said = now
            left = (now - began[0]) / (done - began[1]) * (total - done)
            print(f"{what}: {done} of {total}, {left:.0f} s left", file=sys.stderr, flush=True)

    return say


@contextmanager
def warning_lines() -> Iterator[None]:
    """What is warned of as a line for a person, without the place in the code."""

    def say(message: Warning | str, *where: object, **more: object) -> None:
        print(f"quorate: {message}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.showwarning = say
        yield
