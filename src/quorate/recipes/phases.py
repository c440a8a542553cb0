"""A whole run, phase by phase: search, train, tune, export, bench, evaluate, report.

Each phase reads what those before it left in the run's folder, and is skipped when it is done for the same settings.
What is costly (search, train) is never done again unasked: other settings are another run. The rest is cheap, and is
done again whenever something before it changed.

This file does not know how any phase works: it calls them in order, and keeps the book.
"""

import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from quorate.data.dataset import Dataset
from quorate.errors import QuorateError
from quorate.recipes.config import RunConfig
from quorate.store.phases import Phases, key_of
from quorate.store.run import RunFolder, held, read_config, write_config
from quorate.train.records import circumstances

__all__ = ["PHASES", "Phase", "Shell", "Work", "phase_keys", "run_phases"]

PHASES = ("search", "train", "tune", "export", "bench", "evaluate", "report")
COSTLY = ("search", "train")
FREE = {"recipe", "root", "device", "jobs", "threads", "wish", "measuring"}
"""Settings that make no other search or training: where, not what; or used later."""


class Work(NamedTuple):
    """What a phase is given: the settings, the folder, the data, and whom to tell."""

    config: RunConfig
    place: RunFolder
    data: Dataset
    shell: "Shell"


Phase = Callable[[Work], None]


class Shell(Protocol):
    """How a person watches a run."""

    def phase(self, name: str, state: str) -> None:
        """A phase is ``begun``, ``skipped``, or done (``12.3 s``)."""

    def training(self) -> AbstractContextManager[Callable[[Any], None]]:
        """Something to tell the progress of learners to."""

    def steps(self) -> AbstractContextManager[Callable[[str, int, int], None] | None]:
        """Something to tell what is done, how much of it, and of how much."""


class Quiet:
    """A shell that nobody watches."""

    def phase(self, name: str, state: str) -> None:
        """Say nothing."""

    def training(self) -> AbstractContextManager[Callable[[Any], None]]:
        """Listen to nothing."""
        return nullcontext(lambda told: None)

    def steps(self) -> AbstractContextManager[Callable[[str, int, int], None] | None]:
        """Want no steps."""
        return nullcontext(None)


def run_phases(
    config: RunConfig,
    run: Path,
    works: Mapping[str, Phase],
    data: Callable[[], Dataset],
    *,
    begin: str | None = None,
    end: str = PHASES[-1],
    shell: Shell | None = None,
) -> Phases:
    """Do what is not done yet.

    Args:
        config: of the run.
        run: its folder.
        works: by phase, what to do; a phase without is left out.
        data: gives the data set, once it is needed.
        begin: the phase from which on everything is done again; None: what is done stays.
        end: the last phase.
        shell: how a person watches.

    Raises:
        QuorateError: the folder holds another run, or somebody else is writing there.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.data import load
        >>> done = []
        >>> works = {"train": lambda work: done.append("train"), "tune": lambda work: done.append("tune")}
        >>> with TemporaryDirectory() as above:
        ...     for begin in (None, None, "tune"):
        ...         _ = run_phases(RunConfig(), Path(above) / "run", works, lambda: load("digits"), begin=begin)
        >>> done
        ['train', 'tune', 'tune']
    """
    for name in (begin, end):
        if name is not None and name not in PHASES:
            raise ValueError(f"a phase must be one of {', '.join(PHASES)}, got {name!r}")
    if begin is not None and PHASES.index(begin) > PHASES.index(end):
        raise ValueError(f"the first phase must not come after the last, got from {begin} to {end}: leave one out")
    config, place, shell = config.seeded(), RunFolder(run), shell or Quiet()
    wanted = [name for name in PHASES[: PHASES.index(end) + 1] if name in works]
    with held(run):
        phases, keys = Phases.read(place.phases), phase_keys(config)
        work: Work | None = None
        again = [] if begin is None else list(PHASES[PHASES.index(begin) :])
        before = _written(place, again)
        _refuse_another(
            place, config, before, {name: key for name, (key, _) in phases.done.items() if name not in again}
        )
        if again:
            work = Work(config, place, data(), shell)  # nothing is removed for images that are not there
            phases.forget(again)
            _clear(place, again)
        _claim(place, config, before)
        redone = False
        for name in wanted:
            if phases.has(name, keys[name]) and not redone:
                shell.phase(name, "skipped")
                continue
            if not redone:
                phases.forget(list(PHASES[PHASES.index(name) :]))  # interrupted here, none of them is done
            redone = True
            work = work or Work(config, place, data(), shell)
            shell.phase(name, "begun")
            began = time.monotonic()
            works[name](work)
            seconds = time.monotonic() - began
            phases.note(name, keys[name], seconds)
            shell.phase(name, f"{seconds:.1f} s")
        return phases


def phase_keys(config: RunConfig) -> dict[str, str]:
    """What each phase depends on, as a hash: its own settings and those of the phases before it.

    Example:
        >>> from quorate.recipes.config import WishConfig
        >>> one, other = (phase_keys(RunConfig(wish=WishConfig(max_drop=d))) for d in (0.5, 1))
        >>> [name for name in PHASES if one[name] == other[name]]
        ['search', 'train']
    """
    settings = config.model_dump(mode="json", exclude=FREE)
    settings["training"].pop("checkpoint_seconds")
    searched = {name: settings[name] for name in ("data", "side", "learners", "selector", "search", "seed")}
    own: dict[str, dict[str, Any]] = {
        "search": searched if config.searches else {},
        "train": settings,
        "tune": config.wish.model_dump(mode="json"),
        "bench": config.measuring.model_dump(mode="json"),
    }
    keys: dict[str, str] = {}
    before = ""
    for name in PHASES:
        keys[name] = before = key_of({"phase": name, **own.get(name, {})}, before)
    return keys


def _written(place: RunFolder, again: list[str]) -> dict[str, Any]:
    """What ``config.json`` says of what is not done again."""
    body = read_config(place.config) if place.config.exists() else {}
    return {name: body[name] for name in body if name not in _OF_TRAINING} if "train" in again else body


def _claim(place: RunFolder, config: RunConfig, before: Mapping[str, Any]) -> None:
    """Write the settings down."""
    now = config.model_dump(mode="json")
    if not before.keys() & {"run", "training"}:
        write_config(place.config, {"run": now, **circumstances()})
    elif before["run"] != now:
        write_config(place.config, {**before, "run": now})


def _refuse_another(place: RunFolder, config: RunConfig, before: Mapping[str, Any], done: Mapping[str, str]) -> None:
    """A folder that holds another run is not touched."""
    if not before.keys() & {"run", "training"}:
        return
    now, then, keys = config.model_dump(mode="json"), before.get("run"), phase_keys(config)
    begun = [name for name in COSTLY if name in done and done[name] != keys[name]]
    if then is None or begun or ("training" in before and "train" not in done and _differs(then, now)):
        odd = "was not made by `quorate run`" if then is None else "; ".join(_differs(then, now)[:3])
        first = begun[0] if begun else "train"
        raise QuorateError(
            f"{place.path} holds another run ({odd}): choose another folder with --run, or do it again from there on "
            f"with --from {first}"
        )


def _differs(then: Mapping[str, Any], now: Mapping[str, Any], above: str = "") -> list[str]:
    """The settings that make it another run, with both values."""
    odd: list[str] = []
    for name, value in now.items():
        before = then.get(name)
        if not above and name in FREE:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            odd += _differs(before, value, f"{above}{name}.")
        elif before != value and name != "checkpoint_seconds":
            odd.append(f"{above}{name} was {before!r}, is {value!r}")
    return odd


def _clear(place: RunFolder, phases: list[str]) -> None:
    """Remove what the phases had made, so that nothing of it is taken for the new."""
    made: dict[str, list[Path]] = {
        "search": [place.search],
        "train": [place.path / "learners", place.committee, place.votes.parent, place.path / "costs.json"],
        "tune": [place.tuning, place.report / "frontier.svg"],
        "export": [place.bundle],
        "bench": [place.report / "bench.json"],
        "evaluate": [place.report / "results.json"],
        "report": [place.report / "index.html"],
    }
    for path in [path for name in phases for path in made.get(name, [])]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


_OF_TRAINING = ("training", "learners", "data", "splits", "seed", "about", "run")
