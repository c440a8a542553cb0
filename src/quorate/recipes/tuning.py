"""Tuning a finished run: votes recorded where they are not, a policy chosen, promised, drawn, and put in its place.

This file does not know how a policy is chosen, nor how votes are made.
"""

import os
from collections.abc import Callable, Sequence

from quorate import __version__
from quorate.data.dataset import Dataset
from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.report.frontier import draw_frontier
from quorate.squad import Tuned, Votes, Wish, tune
from quorate.squad.candidates import FAMILIES
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder, held, read_committee
from quorate.store.timings import best_fit, read_timings
from quorate.store.tuning import write_tuning
from quorate.train.again import votes_of_run

__all__ = ["tune_run"]


def tune_run(
    run: str | os.PathLike[str],
    wish: Wish | None = None,
    policies: Sequence[str] = FAMILIES,
    *,
    threshold: float | None = None,
    split: str | None = None,
    data: Dataset | None = None,
    own: dict[int, Learner] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> tuple[Tuned, Votes, str]:
    """Choose the policy of a run on its held-out images; it decides by it from then on.

    Args:
        run: its folder, trained.
        wish: half a point of accuracy for lazy cost, unless said otherwise.
        policies: families to choose among.
        threshold: the only one to try.
        split: the recorded samples to choose on; by default those held out for calibration.
        data: what it was trained on; None: found again, where votes have to be recorded.
        own: by number, networks of the user's own.
        progress: called with what is being done, the steps done, and of how many.

    Returns:
        What was chosen, the votes it was chosen on, and the name of their split.

    Raises:
        QuorateError: the run is not trained, or milliseconds are wished for and none were measured.

    Example:
        >>> tune_run("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/committee.json: cannot be read: No such file or directory; ...
    """
    wish, place = wish or Wish(), RunFolder(run)
    which = split or "calibration"
    read_committee(place.committee)
    with held(run):
        votes = votes_of_run(run, data=data, own=own).of(which)
        if wish.cost == "milliseconds":
            votes = _timed(votes, place)
        tuned = tune(votes, wish, policies, progress, threshold=threshold)
        write_tuning(run, tuned, {"split": which, "quorate": __version__})
        with on_disk(place.report, "written"):
            place.report.mkdir(exist_ok=True)
        draw_frontier(place.report / "frontier.svg", tuned)
    return tuned, votes, which


def _timed(votes: Votes, place: RunFolder) -> Votes:
    """The votes with the milliseconds that were measured of the run, here if possible, or of its bundle."""
    shape = (votes.macs.shape[0], votes.macs.shape[1])
    measured = (*read_timings(place.bundle, shape), *read_timings(place.path, shape))
    timing = best_fit(measured, None)
    if timing is None:
        raise QuorateError(f"{place.path}: no milliseconds were measured: run `quorate bench {place.path}` first")
    return votes._replace(milliseconds=dict(timing.milliseconds))
