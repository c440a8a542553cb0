"""What of a whole run is done, for how long it took, and for which settings: ``phases.json``.

A phase is done for a *key*, a hash of the settings that it and the phases before it depend on. So a command can tell
what may be skipped, what has to be done again, and what would silently be something else.

This file does not know what the phases do.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quorate.store.faults import on_disk
from quorate.store.schema import read_document, write_document

__all__ = ["Phases", "key_of"]

SCHEMA, VERSION = "quorate.phases", 1


def key_of(settings: Mapping[str, Any], before: str = "") -> str:
    """A hash of settings that JSON can say, and of those before.

    Example:
        >>> key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1}), key_of({}) == key_of({}, "x")
        (True, False)
    """
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:16]


@dataclass
class Phases:
    """The file, and what it says.

    Attributes:
        path: of ``phases.json``.
        done: by phase, its key and the seconds it took.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as run:
        ...     phases = Phases.read(f"{run}/phases.json")
        ...     phases.note("train", "abc", 61.2)
        ...     Phases.read(f"{run}/phases.json").seconds
        {'train': 61.2}
    """

    path: Path
    done: dict[str, tuple[str, float]]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Phases":
        """What a run says; nothing where there is no such file.

        Raises:
            QuorateError: one line, when it is broken, changed, foreign or too new.
        """
        path = Path(path)
        if not path.exists():
            return cls(path, {})
        body = read_document(path, SCHEMA, VERSION)
        with on_disk(path):
            try:
                done = {str(name): (str(one["key"]), float(one["seconds"])) for name, one in body["done"].items()}
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise ValueError(f"does not say what is done ({error}): remove it, and run again") from error
        return cls(path, done)

    @property
    def seconds(self) -> dict[str, float]:
        """How long each phase took."""
        return {name: seconds for name, (_, seconds) in self.done.items()}

    def has(self, phase: str, key: str) -> bool:
        """Whether a phase is done, for these settings."""
        return self.done.get(phase, ("", 0.0))[0] == key

    def note(self, phase: str, key: str, seconds: float) -> None:
        """A phase is done."""
        self.done[phase] = key, round(seconds, 1)
        self._write()

    def forget(self, phases: list[str]) -> None:
        """Some phases have to be done again."""
        if any(name in self.done for name in phases):
            self.done = {name: one for name, one in self.done.items() if name not in phases}
            self._write()

    def _write(self) -> None:
        done = {name: {"key": key, "seconds": seconds} for name, (key, seconds) in self.done.items()}
        write_document(self.path, SCHEMA, VERSION, {"done": done})
