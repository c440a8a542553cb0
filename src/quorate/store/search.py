"""What a search found, on disk: ``search/genotypes.json`` with the committee of every selector, and its predictions.

A genotype is a document here: ``{"normal": [[operation, input], ...], "reduce": [...]}``, eight edges each, which
``quorate.nets.Genotype(**document)`` makes an architecture of.

This file does not know what operations there are, nor how a search is made.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from quorate.store.faults import on_disk, short
from quorate.store.run import RunFolder
from quorate.store.schema import read_document, write_document

__all__ = ["genotypes_path", "read_genotypes", "read_search", "write_genotypes"]

SCHEMA, VERSION = "quorate.genotypes", 1
EDGES = 8


def genotypes_path(path: str | os.PathLike[str]) -> Path:
    """The file of genotypes that a path means: itself, or that of a run's directory.

    Example:
        >>> genotypes_path("runs/toy/search/genotypes.json").name
        'genotypes.json'
    """
    path = Path(path)
    return RunFolder(path).genotypes if path.is_dir() else path


def write_genotypes(
    path: str | os.PathLike[str],
    selectors: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write the committees of a search, with anything JSON can say ``about`` it.

    Args:
        path: of the file.
        selectors: by name, each with its ``genotypes`` and its ``row`` of the table.
        about: the search.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> cell = [["skip_connect", 0]] * 8
        >>> with TemporaryDirectory() as folder:
        ...     found = {"random": {"genotypes": [{"normal": cell, "reduce": cell}], "row": {}}}
        ...     write_genotypes(f"{folder}/genotypes.json", found)
        ...     read_genotypes(f"{folder}/genotypes.json")["random"][0]["normal"][0]
        ['skip_connect', 0]
    """
    write_document(path, SCHEMA, VERSION, {"selectors": dict(selectors), "about": dict(about or {})})


def read_genotypes(path: str | os.PathLike[str]) -> dict[str, list[dict[str, Any]]]:
    """The genotypes of every selector that was run, by its name, in the order in which they were found.

    Args:
        path: the file, or the directory of a run.

    Raises:
        QuorateError: one line, when it is missing, broken, changed by hand, foreign or too new.

    Example:
        >>> read_genotypes("/nowhere/genotypes.json")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/genotypes.json: cannot be read: No such file or directory; ...
    """
    selectors, _ = read_search(path)
    return {name: [dict(one) for one in found["genotypes"]] for name, found in selectors.items()}


def read_search(path: str | os.PathLike[str]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """Everything :func:`write_genotypes` wrote: ``genotypes`` and ``row`` of every selector, and ``about``."""
    path = genotypes_path(path)
    body = read_document(path, SCHEMA, VERSION)
    with on_disk(path):
        selectors, about = body.get("selectors"), body.get("about")
        if not isinstance(selectors, dict) or not selectors or not isinstance(about, dict):
            raise ValueError("names no committee: run `quorate search` again")
        for name, found in selectors.items():
            if not isinstance(found, dict) or not isinstance(found.get("genotypes"), list) or not found["genotypes"]:
                raise ValueError(f"holds no genotypes of the selector {short(name)}: run `quorate search` again")
            if not isinstance(found.get("row", {}), dict):
                raise ValueError(f"the row of {short(name)} must be an object, got {short(found['row'])}: search again")
            for k, one in enumerate(found["genotypes"]):
                _check(one, f"genotype {k} of {short(name)}")
        return selectors, about


def _check(one: Any, where: str) -> None:
    if not isinstance(one, dict) or set(one) != {"normal", "reduce"}:
        raise ValueError(f"{where} must have a normal and a reduction cell, got {short(one)}: search again")
    for cell in one.values():
        if not isinstance(cell, Sequence) or len(cell) != EDGES or not all(_is_edge(edge) for edge in cell):
            raise ValueError(f"{where} must have {EDGES} edges [operation, input] a cell, got {short(cell)}")


def _is_edge(edge: Any) -> bool:
    return isinstance(edge, list) and len(edge) == 2 and isinstance(edge[0], str) and type(edge[1]) is int
