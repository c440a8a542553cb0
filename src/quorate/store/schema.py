"""JSON documents with a schema, a version and a checksum: what a run says of itself in words and numbers.

This file does not know what the documents say.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from quorate.store.atomic import write_atomic
from quorate.store.faults import on_disk, short

__all__ = ["checksum", "read_document", "write_document"]

LARGEST = 256 * 2**20


def write_document(path: str | os.PathLike[str], schema: str, version: int, body: Mapping[str, Any]) -> None:
    """Write what JSON can say to one file, whole or not at all.

    Raises:
        ValueError: the body holds something that JSON cannot say, or a number that is not finite.
        QuorateError: the file cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     write_document(f"{folder}/a.json", "quorate.toy", 1, {"answer": 42})
        ...     read_document(f"{folder}/a.json", "quorate.toy", 1)
        {'answer': 42}
    """
    try:
        plain = json.loads(json.dumps(dict(body), allow_nan=False))  # tuples and integer keys as the reader will see
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{schema} must be what JSON can say ({error}): use text, numbers, lists and dicts") from error
    document = {"schema": schema, "version": version, "sha256": checksum(plain), **plain}
    write_atomic(path, (json.dumps(document, indent=1) + "\n").encode())


def read_document(path: str | os.PathLike[str], schema: str, version: int) -> dict[str, Any]:
    """The body of a document that :func:`write_document` wrote.

    Raises:
        QuorateError: one line, when the file is missing, broken, foreign, changed by hand, or too new.

    Example:
        >>> read_document("/nowhere/a.json", "quorate.toy", 1)
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/a.json: cannot be read: No such file or directory; ...
    """
    path = Path(path)
    with on_disk(path):
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise ValueError(f"is larger than {LARGEST >> 20} MiB: not a document of quorate")
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ValueError("is not JSON: it was cut off or changed; write it again") from error
        if not isinstance(body, dict) or body.pop("schema", None) != schema:
            raise ValueError(f"is JSON, but not of the schema {schema}: is it another file?")
        found, sha256 = body.pop("version", None), body.pop("sha256", None)
        if not isinstance(found, int) or found < 1:
            raise ValueError(f"has the impossible schema version {short(found)}: write it again")
        if found > version:
            raise ValueError(f"has schema version {found}, this quorate reads up to {version}: update quorate")
        if sha256 != checksum(body):
            raise ValueError("does not match its checksum: it was cut off or changed; write it again")
        return body


def checksum(body: Mapping[str, Any]) -> str:
    """SHA-256 of a document, whatever the order of its keys.

    Example:
        >>> checksum({"a": 1, "b": 2}) == checksum({"b": 2, "a": 1})
        True
    """
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
