"""The data and the votes of a run, found again from what its ``config.json`` says.

Shapes: ``E`` exits, ``K`` learners. This file does not know who decides from the votes.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from quorate.data import load
from quorate.data.dataset import Dataset
from quorate.data.splits import split
from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.squad import Votes
from quorate.store import read_votes
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder, read_committee, read_config
from quorate.train.committee import load_learners
from quorate.train.evaluation import record_votes

__all__ = ["Splitting", "data_of_run", "splitting_of_run", "votes_of_run"]


class Splitting(NamedTuple):
    """How a run divided its training images: what the splits follow from."""

    calibration: float
    seed: int


def splitting_of_run(run: str | os.PathLike[str]) -> Splitting:
    """How a run divided its training images.

    Raises:
        QuorateError: the run has no configuration, or one that does not say.
    """
    config = _config(run)
    try:
        training = config["training"]
        return Splitting(float(training["calibration"]), int(training["seed"]))
    except (KeyError, TypeError, ValueError) as error:
        raise QuorateError(f"{RunFolder(run).config}: does not say how the images were divided ({error})") from error


def data_of_run(
    run: str | os.PathLike[str], *, data: str | None = None, root: str | os.PathLike[str] | None = None
) -> Dataset:
    """The data set that a run was trained on.

    Args:
        run: its folder.
        data: where it lies now, as ``--data`` of the run had it; by default as it was then.
        root: where named data sets are kept now; by default as it was then.

    Raises:
        QuorateError: it is not there any more, or is another one: its labels divide into other splits.

    Example:
        >>> data_of_run("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/config.json: cannot be read: No such file or directory; ...
    """
    config = _config(run)
    said: dict[str, Any] = config.get("run") or config.get("about") or {}
    spec = data or said.get("data")
    if not isinstance(spec, str):
        raise QuorateError(
            f"{RunFolder(run).config}: does not say where its data are, the run was made in Python: give --data"
        )
    place = Path(root) if root is not None else said.get("root")
    side = config.get("data", {}).get("shape", [said.get("side") or 64])[0]
    divided = "splits" in config  # what `committee.save` wrote was not divided by us
    found = load(spec, root=place, side=int(side), seed=splitting_of_run(run).seed if divided else 0)
    if divided:
        _check_same(run, config, found)
    return found


def votes_of_run(
    run: str | os.PathLike[str],
    splits: Sequence[str] = ("calibration", "test"),
    *,
    data: Dataset | None = None,
    own: dict[int, Learner] | None = None,
) -> Votes:
    """The recorded votes of a run; they are recorded first where that was not done.

    Args:
        run: its folder, finished.
        splits: which are needed.
        data: what it was trained on; None: found again.
        own: by number, networks of the user's own, which no file can build.

    Raises:
        QuorateError: the run is not finished, or its data are not there any more.
    """
    place = RunFolder(run)
    record = read_committee(place.committee)
    if place.votes.exists():
        votes = read_votes(place.votes)
        if votes.split is not None and set(splits) <= set(votes.split.tolist()):
            return votes
    learners, _ = load_learners(run, own)
    how = splitting_of_run(run)
    with on_disk(place.votes.parent, "written"):
        place.votes.parent.mkdir(exist_ok=True)
    return record_votes(
        learners,
        data_of_run(run) if data is None else data,
        place.votes,
        splits=splits,
        inputs=[one.input for one in record.learners if one.input is not None],
        calibration=how.calibration,
        seed=how.seed,
        metadata={"learners": [one.name for one in record.learners]},
    )


def _config(run: str | os.PathLike[str]) -> dict[str, Any]:
    return read_config(RunFolder(run).config)


def _check_same(run: str | os.PathLike[str], config: dict[str, Any], found: Dataset) -> None:
    how = splitting_of_run(run)
    digests = split(found.train_labels, how.seed, calibration=how.calibration).digests()
    if config["splits"] != digests:
        raise QuorateError(
            f"{Path(run)}: the data found ({found.source}) are not those of the run: their splits differ; "
            "give --data and --root of the ones it was trained on"
        )
