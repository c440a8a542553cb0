"""What branches cost in milliseconds, as it was measured: ``costs.json`` in a run or beside a bundle's manifest.

    costs.json            schema, version, checksum; one measurement for each backend, device, threads and machine

It is the one file of a bundle that its manifest does not vouch for: it belongs to a machine, not to the networks, so it
may be replaced, removed, or brought from the board on which the committee will run. It vouches for itself, and is
compared with the committee it is read for.

Shapes: ``E`` exits, ``K`` learners. This file does not know who measures, nor how.
"""

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from quorate.squad.checks import check_macs
from quorate.store.faults import on_disk, short
from quorate.store.schema import read_document, write_document

__all__ = ["Timing", "best_fit", "read_timings", "these_versions", "this_machine", "update_timings", "write_timings"]

SCHEMA, VERSION, NAME = "quorate.costs", 1, "costs.json"


@dataclass(frozen=True, eq=False)
class Timing:
    """One measurement.

    Attributes:
        backend: who ran the branches: ``"torch"``, ``"onnxruntime"``, ...
        device: where.
        threads: how many each branch could use.
        milliseconds: ``[E, K]`` by batch size, *per image*; 0 where a learner has no branch.
        hardware: of the machine, see :func:`this_machine`.
        versions: of what ran.
        about: how it was measured: rounds, images, and by batch size the source that was the ``fastest``.

    Example:
        >>> Timing("onnxruntime", "cpu", 1, {1: [[2.5]], 32: [[1.25]]}).milliseconds[32]
        array([[1.25]])
    """

    backend: str
    device: str
    threads: int
    milliseconds: Mapping[int, Any]
    hardware: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot have been measured."""
        for name in ("backend", "device"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name).isprintable():
                raise ValueError(f"{name} of a measurement must be a name, got {short(getattr(self, name))}")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or self.threads < 1:
            raise ValueError(f"threads of a measurement must be at least 1, got {short(self.threads)}")
        for name in ("hardware", "versions", "about"):
            if not isinstance(getattr(self, name), Mapping):
                raise ValueError(f"{name} of a measurement must be a table of names, got {short(getattr(self, name))}")
        named = self.about.get("fastest", {})
        if not _names_by_size(named):
            raise ValueError(f"fastest of a measurement must name sources by batch size, got {short(named)}")
        if not self.milliseconds:
            raise ValueError("a measurement must hold milliseconds for at least one batch size")
        tables = {size: _table(size, table) for size, table in self.milliseconds.items()}
        if len({table.shape for table in tables.values()}) > 1:
            raise ValueError("the tables of a measurement must be of the same exits and learners")
        object.__setattr__(self, "milliseconds", tables)

    @property
    def fastest(self) -> dict[int, str]:
        """By batch size, the source that took the least time; empty where they were not compared."""
        return {int(size): name for size, name in self.about.get("fastest", {}).items()}

    @property
    def key(self) -> tuple[Any, ...]:
        """Two measurements with the same key replace each other."""
        return self.backend, self.device, self.threads, *sorted(map(str, self.hardware.items()))


@cache
def _processor() -> str:
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        if names:
            return names[0]
    return platform.processor()


def this_machine() -> dict[str, Any]:
    """The hardware of this machine, as measurements and reports name it.

    Example:
        >>> sorted(this_machine())
        ['cores', 'machine', 'processor']
    """
    return {"machine": platform.machine(), "processor": _processor(), "cores": os.cpu_count() or 1}


def these_versions() -> dict[str, str]:
    """The versions of everything that takes part in running a committee, as measurements and reports name them.

    Example:
        >>> sorted(these_versions())[:2]
        ['numpy', 'onnxruntime']
    """
    known = {"python": platform.python_version()}
    for package in ("quorate", "numpy", "torch", "onnxruntime", "openvino"):
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known


def write_timings(folder: str | os.PathLike[str], timings: Iterable[Timing]) -> Path:
    """Write ``costs.json``, in place of the one that is there.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = write_timings(folder, [Timing("torch", "cpu", 2, {1: [[2.5]]})])
        ...     read_timings(folder, (1, 1))[0].milliseconds
        {1: array([[2.5]])}
    """
    path = Path(folder) / NAME
    body = [
        {
            "backend": one.backend, "device": one.device, "threads": one.threads,
            "milliseconds": {str(size): table.tolist() for size, table in sorted(one.milliseconds.items())},
            "hardware": dict(one.hardware), "versions": dict(one.versions), "about": dict(one.about),
        }
        for one in timings
    ]  # fmt: skip
    write_document(path, SCHEMA, VERSION, {"unit": "milliseconds per image", "measured": body})
    return path


def read_timings(path: str | os.PathLike[str], shape: tuple[int, int] | None = None) -> tuple[Timing, ...]:
    """The measurements of a run or bundle, the latest first; none where there is no ``costs.json``.

    Args:
        path: the folder, or the file itself.
        shape: ``(E, K)`` of the committee that they must fit; None: whatever they are.

    Raises:
        QuorateError: one line, when the file is cut off, changed, foreign, too new, or of another committee.

    Example:
        >>> read_timings("/nowhere")
        ()
    """
    file = Path(path) if Path(path).is_file() else Path(path) / NAME
    if not file.exists():
        return ()
    body = read_document(file, SCHEMA, VERSION)
    with on_disk(file):
        try:
            found = tuple(_timing(one) for one in body["measured"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"does not describe measured costs ({type(error).__name__}: {error}): remove it, or run `quorate bench`"
            ) from error
        for one in found:
            measured = next(iter(one.milliseconds.values())).shape
            if shape is not None and measured != shape:
                raise ValueError(
                    f"was measured for {list(measured)} branches, the committee has {list(shape)}: remove it, or run "
                    "`quorate bench`"
                )
    return found


def update_timings(folder: str | os.PathLike[str], new: Iterable[Timing], shape: tuple[int, int]) -> Path:
    """Put new measurements before those of other backends, devices, threads and machines, which stay.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     for backend, cost in (("torch", 9.0), ("onnxruntime", 2.0), ("torch", 8.0)):
        ...         _ = update_timings(folder, [Timing(backend, "cpu", 1, {1: [[cost]]})], (1, 1))
        ...     [(one.backend, one.milliseconds[1].item()) for one in read_timings(folder)]
        [('torch', 8.0), ('onnxruntime', 2.0)]
    """
    new = list(new)
    replaced = {one.key for one in new}
    return write_timings(folder, [*new, *(one for one in read_timings(folder, shape) if one.key not in replaced)])


def best_fit(
    timings: Iterable[Timing], backend: str | None = None, device: str | None = None, threads: int | None = None
) -> Timing | None:
    """The measurement nearest to how a committee will run: of its backend; if possible here, on as many threads.

    Args:
        timings: the latest first.
        backend: only of this one; None: of any.
        device: only of this one; None: of any.
        threads: that it will use.

    Example:
        >>> known = [Timing("torch", "cpu", 1, {1: [[9.0]]}), Timing("onnxruntime", "cpu", 1, {1: [[2.0]]})]
        >>> best_fit(known, "onnxruntime").milliseconds[1].item(), best_fit(known, "openvino")
        (2.0, None)
    """
    here = this_machine()
    fitting = [one for one in timings if backend in (None, one.backend) and device in (None, one.device)]
    return min(fitting, key=lambda one: (dict(one.hardware) != here, one.threads != threads), default=None)


def _names_by_size(given: Any) -> bool:
    """Whether it says for batch sizes, as JSON writes them, who was the fastest."""
    return isinstance(given, Mapping) and all(
        str(size).isdecimal() and int(str(size)[:9]) > 0 and len(str(size)) < 10 and isinstance(name, str)
        for size, name in given.items()
    )


def _table(size: Any, table: Any) -> np.ndarray[Any, Any]:
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"milliseconds must be given by batch sizes of at least 1, got {short(size)}")
    array = np.asarray(table, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"milliseconds must be a table [exits, learners], got {short(table)}")
    try:
        return check_macs(array, *array.shape)
    except ValueError as error:
        raise ValueError(str(error).replace("macs", f"milliseconds at batch size {size}", 1)) from error


def _timing(one: Mapping[str, Any]) -> Timing:
    sizes = {int(size) if size.isdecimal() else size: table for size, table in one["milliseconds"].items()}
    return Timing(**{**one, "milliseconds": sizes})
