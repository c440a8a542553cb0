"""Bundles: a folder with everything that a shipped committee needs, and a manifest that vouches for every file.

    BUNDLE/
      manifest.json         files with sizes and checksums, branches, cost table, class names, inputs
      policy.json           who decides
      branch_E_K.onnx       one graph per branch

A bundle is data: nothing is loaded before the manifest, the checksums and the shapes are found to fit together.

Shapes: ``E`` exits, ``K`` learners, ``C`` classes. This file does not know how graphs are made or run.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from quorate.squad.checks import check_macs
from quorate.squad.protocol import Policy
from quorate.store.faults import on_disk, short
from quorate.store.policies import read_policy
from quorate.store.run import InputSpec
from quorate.store.schema import read_document, write_document

__all__ = ["Bundle", "is_bundle", "read_bundle", "write_manifest"]

SCHEMA, VERSION, MANIFEST, POLICY = "quorate.bundle", 1, "manifest.json", "policy.json"
LARGEST_FILE = 2 * 2**30  # what one graph can hold


@dataclass(frozen=True)
class Bundle:
    """What a bundle says of itself, checked.

    Attributes:
        path: its folder.
        policy: who decides.
        macs: ``[E, K]``.
        classes: their names.
        branches: ``[E][K]`` file of each branch's graph, None where a learner has none.
        inputs: per learner how it sees images, None where it reads other tensors.
        names: per learner the names of the tensors it reads, None where it reads them by position.
        chained: whether a branch needs the one before it.
        about: versions, and the largest difference found when it was made.
        sha256: by file.
    """

    path: Path
    policy: Policy
    macs: np.ndarray[Any, Any]
    classes: tuple[str, ...]
    branches: tuple[tuple[str | None, ...], ...]
    inputs: tuple[InputSpec | None, ...]
    names: tuple[tuple[str, ...] | None, ...]
    chained: bool
    about: Mapping[str, Any]
    sha256: Mapping[str, str]

    def data(self, name: str) -> bytes:
        """The bytes of a file, which are those that the manifest vouches for.

        Raises:
            QuorateError: one line, where it is missing, cut off or changed.
        """
        with on_disk(self.path / name):
            with (self.path / name).open("rb") as file:
                data = file.read(LARGEST_FILE)
            if hashlib.sha256(data).hexdigest() != self.sha256[name]:
                raise ValueError("does not match its checksum: it was cut off or changed; export or copy it again")
            return data


def is_bundle(path: str | os.PathLike[str]) -> bool:
    """Whether a folder looks like a bundle.

    Example:
        >>> is_bundle("/nowhere")
        False
    """
    return (Path(path) / MANIFEST).is_file()


def write_manifest(
    path: str | os.PathLike[str],
    *,
    macs: Any,
    classes: Sequence[str],
    branches: Sequence[Sequence[str | None]],
    inputs: Sequence[InputSpec | None],
    names: Sequence[Sequence[str] | None],
    chained: bool,
    about: Mapping[str, Any],
) -> None:
    """Vouch for a folder in which the policy and all graphs lie: the last thing written, so that no half is a whole.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.squad import Rule
        >>> from quorate.store import write_atomic, write_policy
        >>> from quorate.store.run import InputSpec
        >>> with TemporaryDirectory() as folder:
        ...     write_policy(Rule("mean"), f"{folder}/policy.json")
        ...     write_atomic(f"{folder}/branch_0_0.onnx", b"graph")
        ...     write_manifest(folder, macs=[[5]], classes=["cat", "dog"], branches=[["branch_0_0.onnx"]],
        ...         inputs=[InputSpec(8, 8, 1, (0.5,), (0.5,))], names=[None], chained=True, about={})
        ...     read_bundle(folder).classes
        ('cat', 'dog')
    """
    folder = Path(path)
    files = [POLICY, *(name for row in branches for name in row if name is not None)]
    with on_disk(folder):
        sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files}
    body = {
        "macs": np.asarray(macs, dtype=np.float64).tolist(),
        "classes": list(classes),
        "branches": [list(row) for row in branches],
        "inputs": [None if spec is None else asdict(spec) for spec in inputs],
        "names": [None if one is None else list(one) for one in names],
        "chained": chained,
        "about": dict(about),
        "files": sums,
    }
    write_document(folder / MANIFEST, SCHEMA, VERSION, body)


def read_bundle(path: str | os.PathLike[str]) -> Bundle:
    """Check a bundle as a whole, checksums of all files included.

    Raises:
        QuorateError: one line, when anything is missing, cut off, changed, foreign, too new, or contradicts itself.

    Example:
        >>> read_bundle("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/manifest.json: cannot be read: No such file or directory; ...
    """
    folder = Path(path)
    manifest = folder / MANIFEST
    body = read_document(manifest, SCHEMA, VERSION)
    policy, _ = read_policy(folder / POLICY)
    with on_disk(manifest):
        try:
            bundle = _bundle(folder, policy, body)
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            raise ValueError(
                f"does not describe a bundle ({type(error).__name__}: {error}): export it again"
            ) from error
    for name in bundle.sha256:
        bundle.data(name)
    return bundle


def _bundle(folder: Path, policy: Policy, body: dict[str, Any]) -> Bundle:
    """The manifest's values, fitting together."""
    branches = tuple(tuple(row) for row in body["branches"])
    if not branches or not branches[0] or any(len(row) != len(branches[0]) for row in branches):
        raise ValueError("must name a file or null for every exit and learner: export the bundle again")
    wanted = {POLICY, *(name for row in branches for name in row if name is not None)}
    if set(body["files"]) != wanted:
        raise ValueError(f"vouches for {short(sorted(body['files']))}, but its branches are other files: export again")
    for name in wanted:
        if not isinstance(name, str) or Path(name).name != name or "\\" in name:
            raise ValueError(f"names the file {short(name)}, which is not one of its own folder: is it hostile?")
    if any(one is None for one in branches[-1]) or any(
        later is None and one is not None
        for row, after in pairwise(branches)
        for one, later in zip(row, after, strict=True)
    ):
        raise ValueError("lacks a branch that another one leads to: export the bundle again")
    macs = check_macs(body["macs"], len(branches), len(branches[0]))
    classes = tuple(body["classes"])
    if len(classes) < 2 or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"must name at least two classes, got {short(classes)}: export the bundle again")
    inputs = tuple(None if one is None else InputSpec(**one) for one in body["inputs"])
    names = tuple(None if one is None else tuple(map(str, one)) for one in body["names"])
    if not len(inputs) == len(names) == len(branches[0]) or not isinstance(body["chained"], bool):
        raise ValueError(f"must say of each of its {len(branches[0])} learners what it reads: export the bundle again")
    return Bundle(
        folder,
        policy,
        macs,
        classes,
        branches,
        inputs,
        names,
        body["chained"],
        dict(body["about"]),
        dict(body["files"]),
    )
