"""The directory of a run: what is where, who may write to it, and the committee that it ends with::

    runs/NAME/
      config.json           the whole configuration, versions, seed, git state, hardware
      search/               what a search keeps: config.json, phase states, genotypes.json, history.jsonl, drawings/
      learners/0..K-1/      weights.safetensors, genotype.json, history.jsonl, checkpoint/
      committee.json        policy, cost table, class names, each learner's network and input: all that is needed to
                            load the committee and call it, with the weights
      costs.json            milliseconds per branch and batch size, once measured: see :mod:`quorate.store.timings`

Shapes: ``E`` exits, ``K`` learners, ``C`` channels.

This file does not know networks, nor how anything was trained.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from quorate.errors import QuorateError
from quorate.squad.documents import policy_from_document, policy_to_document
from quorate.squad.protocol import Policy
from quorate.store.faults import on_disk, short
from quorate.store.schema import read_document, write_document

__all__ = [
    "CommitteeRecord",
    "InputSpec",
    "LearnerRecord",
    "RunFolder",
    "held",
    "read_committee",
    "read_config",
    "write_committee",
    "write_config",
]

_holding: ContextVar[frozenset[Path]] = ContextVar("_holding", default=frozenset())
CONFIG, COMMITTEE, VERSION = "quorate.run", "quorate.committee", 1


@dataclass(frozen=True)
class InputSpec:
    """How a learner sees an image: its size, its channels, and what is a normal pixel.

    Attributes:
        height: of the images it reads.
        width: of the images it reads.
        channels: of the images it reads; a grey image is repeated for a learner of more.
        mean: of each channel, of pixels in 0..1.
        std: of each channel, of pixels in 0..1.

    Example:
        >>> InputSpec(32, 32, 1, (0.5,), (0.25,)).channels
        1
    """

    height: int
    width: int
    channels: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse what no image can be."""
        object.__setattr__(self, "mean", tuple(float(m) for m in self.mean))
        object.__setattr__(self, "std", tuple(float(s) for s in self.std))
        sides = (self.height, self.width, self.channels)
        if any(isinstance(side, bool) or not isinstance(side, int) or side < 1 for side in sides):
            raise ValueError(f"height, width and channels of an input must be positive integers, got {sides}")
        if not len(self.mean) == len(self.std) == self.channels or not all(s > 0 for s in self.std):
            raise ValueError(
                f"mean and std of an input must be one for each of its {self.channels} channels and std positive, "
                f"got {self.mean} and {self.std}"
            )


@dataclass(frozen=True)
class LearnerRecord:
    """One learner of a committee, as far as words can say.

    Attributes:
        name: for people.
        network: how to build it again: ``kind`` and whatever that kind needs (``darts``: genotype, channels, cells,
            classes, exits, stem). A network of the user's own is ``kind="own"`` and must be brought along.
        input: how it sees an image; None where it reads other tensors.
        weights: its weights' file, below the run.
        accuracy: share of right votes per exit, by split.
    """

    name: str
    network: Mapping[str, Any]
    input: InputSpec | None
    weights: str
    accuracy: Mapping[str, Sequence[float]]

    def __post_init__(self) -> None:
        """Refuse a file outside of the run."""
        if not isinstance(self.weights, str) or self.weights.startswith("/") or ".." in Path(self.weights).parts:
            raise ValueError(f"weights must be a file below the run, got {short(self.weights)}")


@dataclass(frozen=True)
class CommitteeRecord:
    """What ``committee.json`` says.

    Attributes:
        policy: who decides.
        macs: ``[E][K]`` incremental cost of each branch, aligned at the last exit; 0 where a learner has no branch.
        classes: their names, in the order of the labels.
        learners: in the order of the costs' columns.
        chained: whether a branch needs the one before it.
    """

    policy: Policy
    macs: tuple[tuple[float, ...], ...]
    classes: tuple[str, ...]
    learners: tuple[LearnerRecord, ...]
    chained: bool = True

    def __post_init__(self) -> None:
        """Refuse tables and lists that do not fit together."""
        if not self.learners or not self.macs or any(len(row) != len(self.learners) for row in self.macs):
            raise ValueError(f"macs must have a column for each of {len(self.learners)} learners, got {self.macs}")
        if len(self.classes) < 2 or not all(isinstance(name, str) for name in self.classes):
            raise ValueError(f"a committee must name at least two classes, got {short(self.classes)}")


class RunFolder:
    """Where things are in the directory of a run.

    Example:
        >>> RunFolder("runs/toy").weights(2).as_posix()
        'runs/toy/learners/2/weights.safetensors'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.config = self.path / "config.json"
        self.committee = self.path / "committee.json"
        self.search = self.path / "search"
        self.genotypes = self.search / "genotypes.json"
        self.votes = self.path / "votes" / "votes.safetensors"
        self.tuning = self.path / "tuning.json"
        self.phases = self.path / "phases.json"
        self.bundle = self.path / "bundle"
        self.report = self.path / "report"

    def learner(self, k: int) -> Path:
        """The folder of one learner."""
        return self.path / "learners" / str(k)

    def weights(self, k: int) -> Path:
        """The trained weights of one learner."""
        return self.learner(k) / "weights.safetensors"

    def genotype(self, k: int) -> Path:
        """The genotype of one learner."""
        return self.learner(k) / "genotype.json"

    def history(self, k: int) -> Path:
        """What happened to one learner, epoch by epoch."""
        return self.learner(k) / "history.jsonl"


@contextmanager
def held(folder: str | os.PathLike[str], *, alone: bool = False) -> Iterator[Path]:
    """Make a folder and be its only writer for a while; the system lets go of it when a process dies, however it dies.

    What the holder calls may hold it again; other threads and processes may not.

    Args:
        folder: to hold.
        alone: whether the holder itself may not hold it again either.

    Raises:
        QuorateError: it cannot be made or written to, or somebody else is writing there.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as above, held(f"{above}/run") as folder:
        ...     folder.is_dir()
        True
    """
    folder = Path(folder)
    if (place := folder.absolute()) in _holding.get() and not alone:
        yield folder
        return
    with on_disk(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise QuorateError(
                    f"{folder}: another process is writing there; wait for it, stop it, or choose another folder"
                ) from None
        before = _holding.set(_holding.get() | {place})
        try:
            yield folder
        finally:
            _holding.reset(before)
    finally:
        os.close(handle)


def write_config(path: str | os.PathLike[str], body: Mapping[str, Any]) -> None:
    """Write ``config.json``.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_config(f"{folder}/config.json", {"seed": 0})
        ...     read_config(f"{folder}/config.json")
        {'seed': 0}
    """
    write_document(path, CONFIG, VERSION, body)


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What ``config.json`` says.

    Raises:
        QuorateError: one line, when it is missing, broken, changed, foreign or too new.
    """
    return read_document(path, CONFIG, VERSION)


def write_committee(path: str | os.PathLike[str], committee: CommitteeRecord) -> None:
    """Write ``committee.json``.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.squad import Rule
        >>> one = LearnerRecord("a", {"kind": "own"}, InputSpec(8, 8, 1, (0.5,), (0.5,)), "w.safetensors", {})
        >>> committee = CommitteeRecord(Rule("mean"), ((5.0,),), ("cat", "dog"), (one,))
        >>> with TemporaryDirectory() as folder:
        ...     write_committee(f"{folder}/committee.json", committee)
        ...     read_committee(f"{folder}/committee.json") == committee
        True
    """
    learners = [{**_shallow(one), "input": one.input and _shallow(one.input)} for one in committee.learners]
    policy = policy_to_document(committee.policy)
    write_document(path, COMMITTEE, VERSION, {**_shallow(committee), "policy": policy, "learners": learners})


def read_committee(path: str | os.PathLike[str]) -> CommitteeRecord:
    """What ``committee.json`` says.

    Raises:
        QuorateError: one line, when it is missing, broken, changed, foreign, too new, or contradicts itself.
    """
    body = read_document(path, COMMITTEE, VERSION)
    with on_disk(Path(path)):
        try:
            learners = tuple(
                LearnerRecord(**{**one, "input": None if one["input"] is None else InputSpec(**one["input"])})
                for one in body.pop("learners")
            )
            policy = policy_from_document(body.pop("policy"))
            macs = tuple(tuple(float(cost) for cost in row) for row in body.pop("macs"))
            return CommitteeRecord(policy, macs, tuple(body.pop("classes")), learners, **body)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"does not describe a committee ({type(error).__name__}: {error}): make it again"
            ) from error


def _shallow(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}
