"""Tuning a finished run: a policy chosen on its held-out votes, promised, drawn, and put in its place.

This file does not know how a policy is chosen, nor how votes are made.
"""

import os
from collections.abc import Callable, Sequence

from quorate import __version__
from quorate.report.frontier import draw_frontier
from quorate.squad import Tuned, Votes, Wish, tune
from quorate.squad.candidates import FAMILIES
from quorate.store.faults import on_disk
from quorate.store.phases import Phases
from quorate.store.run import RunFolder, held
from quorate.store.tuning import write_tuning

__all__ = ["tune_run"]


def tune_run(
    run: str | os.PathLike[str],
    votes: Votes,
    wish: Wish | None = None,
    policies: Sequence[str] = FAMILIES,
    *,
    threshold: float | None = None,
    split: str = "calibration",
    progress: Callable[[str, int, int], None] | None = None,
) -> Tuned:
    """Choose the policy of a run; it decides by it from then on.

    Args:
        run: its folder, trained.
        votes: of its learners, on images that none was trained on.
        wish: half a point of accuracy for lazy cost, unless said otherwise.
        policies: families to choose among.
        threshold: the only one to try.
        split: the name of those samples, for the record.
        progress: called with what is being done, the steps done, and of how many.

    Raises:
        QuorateError: the run is not trained, or somebody else is writing there.
        ValueError: milliseconds are wished for and the votes hold none.

    Example:
        >>> import numpy as np
        >>> votes = Votes(np.full((1, 1, 9, 2), 0.5), np.arange(9) % 2, np.ones((1, 1)))
        >>> tune_run("/proc/nowhere", votes)
        Traceback (most recent call last):
        quorate.errors.QuorateError: /proc/nowhere: cannot be written: ...
    """
    place = RunFolder(run)
    with held(run):
        tuned = tune(votes, wish, policies, progress, threshold=threshold)
        write_tuning(run, tuned, {"split": split, "quorate": __version__})
        with on_disk(place.report, "written"):
            place.report.mkdir(exist_ok=True)
        draw_frontier(place.report / "frontier.svg", tuned)
        if place.phases.exists():  # what was made of the policy before is not of this one
            Phases.read(place.phases).forget(["export", "bench", "evaluate", "report"])
    return tuned
