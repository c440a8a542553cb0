"""What tuning a run promised: ``tuning.json``, beside the policy itself in ``committee.json``.

This file does not know how a policy is chosen.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from quorate.squad.tuning import Tuned
from quorate.store.run import RunFolder, read_committee, write_committee
from quorate.store.schema import read_document, write_document

__all__ = ["read_tuning", "write_tuning"]

SCHEMA, VERSION = "quorate.tuning", 1


def write_tuning(run: str | os.PathLike[str], tuned: Tuned, about: Mapping[str, Any] | None = None) -> None:
    """Make a tuned policy the one of a finished run, and keep what it promises.

    Raises:
        QuorateError: the run is not finished, or cannot be written.

    Example:
        >>> write_tuning("/nowhere", None)
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/committee.json: cannot be read: No such file or directory; ...
    """
    place = RunFolder(run)
    record = read_committee(place.committee)
    body = {"policy": str(tuned.policy), **dict(about or {}), **tuned.as_json()}
    write_document(place.tuning, SCHEMA, VERSION, body)
    write_committee(place.committee, replace(record, policy=tuned.policy))


def read_tuning(run: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What tuning a run promised; None where it was not tuned.

    Raises:
        QuorateError: one line, when the file is broken, changed, foreign or too new.

    Example:
        >>> read_tuning("/nowhere") is None
        True
    """
    place = RunFolder(run)
    return read_document(place.tuning, SCHEMA, VERSION) if place.tuning.exists() else None
