"""Fitted policies on disk: JSON with a schema and a checksum, that only numpy is needed to use.

This file does not know how a policy decides, nor how it was chosen.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.squad.documents import policy_from_document, policy_to_document
from quorate.squad.protocol import Policy
from quorate.store.atomic import write_atomic
from quorate.store.faults import on_disk, short

__all__ = ["read_policy", "write_policy"]

SCHEMA, VERSION = "quorate.policy", 1
LARGEST = 256 * 2**20


def write_policy(policy: Policy, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> None:
    """Write a policy, with anything JSON can say ``about`` how it was chosen, to one file, whole or not at all.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.squad import Rule
        >>> with TemporaryDirectory() as folder:
        ...     write_policy(Rule("mean", 0.8), f"{folder}/policy.json", {"max_drop": 0.5})
        ...     read_policy(f"{folder}/policy.json")
        (Rule(criterion='mean', threshold=0.8, significance=0.05, panel='pivot', critical=None), {'max_drop': 0.5})
    """
    body = {"policy": policy_to_document(policy), "about": dict(about or {})}
    document = {"schema": SCHEMA, "version": VERSION, "sha256": _checksum(body), **body}
    write_atomic(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_policy(path: str | os.PathLike[str]) -> tuple[Policy, dict[str, Any]]:
    """The policy of a file, and what was written about it.

    Raises:
        QuorateError: one line, when the file is missing, broken, foreign, changed by hand, or too new.
    """
    path = Path(path)
    with on_disk(path):
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"is larger than {LARGEST >> 20} MiB: not a policy of quorate")
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError("is not JSON: write it again with `quorate tune`") from error
        if not isinstance(document, dict) or document.get("schema") != SCHEMA:
            raise ValueError("is JSON, but not a policy of quorate: write one with `quorate tune`")
        version = document.get("version")
        if not isinstance(version, int) or version < 1:
            raise ValueError(f"has the impossible schema version {short(version)}: write it again")
        if version > VERSION:
            raise ValueError(f"has schema version {version}, this quorate reads up to {VERSION}: update quorate")
        body = {name: document.get(name) for name in ("policy", "about")}
        if not isinstance(body["policy"], dict) or not isinstance(body["about"], dict):
            raise ValueError("lacks its policy: write it again with `quorate tune`")
        if document.get("sha256") != _checksum(body):
            raise ValueError("does not match its checksum: it was cut off or changed; write it again")
        return policy_from_document(body["policy"]), body["about"]


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
