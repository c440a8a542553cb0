"""How a training is watched: bars in a terminal, plain lines anywhere else.

Shapes: ``E`` exits. This file does not know what is trained, nor where; it is told.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

__all__ = ["Listener", "Progress", "line_of", "showing"]

EVERY = 0.5  # seconds between two looks of a person


class Progress(NamedTuple):
    """What a training says of itself.

    Attributes:
        learner: its number.
        step: steps that are done, of all epochs.
        steps: of the whole training.
        epoch: epochs that are done.
        epochs: of the whole training.
        speed: images a second, in steps alone.
        loss: ``[E]`` mean cross-entropy of this epoch.
        accuracy: ``[E]`` on images it has not learned from, or (within an epoch) on those it learns from.
        held_out: which of the two.
    """

    learner: int
    step: int
    steps: int
    epoch: int
    epochs: int
    speed: float
    loss: tuple[float, ...]
    accuracy: tuple[float, ...]
    held_out: bool


Listener = Callable[[Progress], None]


def line_of(told: Progress) -> str:
    """One line for a person.

    Example:
        >>> line_of(Progress(0, 5, 20, 1, 4, 1234.5, (1.5, 1.25), (0.5, 0.625), True))
        'learner 0  epoch 1/4  1,234 images/s  loss 1.500 1.250  held-out accuracy 50.00 62.50 %'
    """
    loss = " ".join(f"{value:.3f}" for value in told.loss)
    right = " ".join(f"{100 * value:.2f}" for value in told.accuracy)
    kind = "held-out" if told.held_out else "training"
    head = f"learner {told.learner}  epoch {told.epoch}/{told.epochs}  {told.speed:,.0f} images/s"
    return f"{head}  loss {loss}  {kind} accuracy {right} %"


@contextmanager
def showing(*, terminal: bool | None = None) -> Iterator[Listener]:
    """Something to tell progress to: bars that stay in place in a terminal, otherwise a line for each epoch.

    Args:
        terminal: whether standard error is one; found out where it is left out.

    Example:
        >>> with showing(terminal=False) as listen:
        ...     listen(Progress(0, 5, 20, 1, 4, 1234.5, (1.5,), (0.5,), True))
    """
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    if not (console.is_terminal if terminal is None else terminal):
        yield _lines()
        return
    from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = TextColumn("{task.description}"), BarColumn(bar_width=16), TimeRemainingColumn()
    with Bars(*columns, console=console, speed_estimate_period=120) as bars:
        tasks: dict[int, TaskID] = {}

        def listen(told: Progress) -> None:
            if told.learner not in tasks:
                tasks[told.learner] = bars.add_task("", total=told.steps, completed=told.step)
            bars.update(tasks[told.learner], completed=told.step, description=line_of(told))

        yield listen


def _lines() -> Listener:
    began: dict[int, tuple[float, Progress]] = {}
    said: dict[int, int] = {}

    def listen(told: Progress) -> None:
        now = time.monotonic()
        start, first = began.setdefault(told.learner, (now, told))
        if told.epoch > said.get(told.learner, first.epoch - told.held_out):
            said[told.learner] = told.epoch
            left = (now - start) / max(1, told.step - first.step) * (told.steps - told.step)
            print(f"{line_of(told)}  {_clock(left)} left", file=sys.stderr, flush=True)

    return listen


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}"
