"""Who can run a run or a bundle here: its branches, and beside them its learners as whole networks.

What has to be exported for that goes to a cache, and is never shipped.

This file does not know what is measured, nor how branches run.
"""

import hashlib
import os
import shutil
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quorate.engine.bench import Contender
from quorate.engine.committee import Committee
from quorate.engine.loading import load, open_networks
from quorate.engine.networks import Array, Networks, State
from quorate.engine.placement import place as divide
from quorate.engine.whole import whole_bundle, whole_learners, whole_macs
from quorate.errors import QuorateError
from quorate.squad.policies import Static
from quorate.store.bundle import is_bundle, read_bundle
from quorate.store.run import RunFolder, read_committee

if TYPE_CHECKING:
    from quorate.nets.learner import Learner

__all__ = ["BACKENDS", "EndToEnd", "available_backends", "default_cache", "open_contender"]

BACKENDS = {"torch": "torch", "onnxruntime": "onnxruntime", "openvino": "openvino"}
"""By the name that :func:`quorate.load` knows, the module that must be installed. All but torch run bundles."""

EXPORTING = ("torch", "onnx", "onnxscript")


class EndToEnd:
    """The branches of each learner one after the other, as networks of one exit, early heads and all.

    Args:
        networks: of branches.

    Example:
        >>> from quorate.engine.recorded import RecordedNetworks
        >>> whole = EndToEnd(RecordedNetworks(np.array([[[[0.9, 0.1]]], [[[0.2, 0.8]]]])))
        >>> whole.run(0, 0, whole.first(0, None, np.array([0])))[1]
        array([[0.2, 0.8]])
    """

    chained = True

    def __init__(self, networks: Networks) -> None:
        """See the class."""
        self._networks = networks
        self.present, self.classes = networks.present[-1:], networks.classes
        self.backend, self.device, self.threads = networks.backend, networks.device, networks.threads
        self.first, self.take, self.join = networks.first, networks.take, networks.join

    def run(self, learner: int, exit: int, state: State) -> tuple[State, Array]:
        """All branches of a learner; of whole models the last one alone."""
        exits = np.flatnonzero(self._networks.present[:, learner]).tolist()
        for e in exits if self._networks.chained else exits[-1:]:
            state, probs = self._networks.run(learner, e, state)
        return state, probs


def available_backends(path: str | os.PathLike[str]) -> list[str]:
    """Those that can run this run or bundle on this machine.

    Example:
        >>> available_backends("/nowhere")
        []
    """
    there = [name for name, module in BACKENDS.items() if find_spec(module) is not None]
    if is_bundle(path):
        return [name for name in there if name != "torch"]
    if not RunFolder(path).committee.is_file():
        return []
    exporting = all(find_spec(module) is not None for module in EXPORTING)
    return [name for name in there if name == "torch" or exporting]


def default_cache() -> Path:
    """Where exported networks are kept between two measurements."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quorate" / "bench"


def open_contender(
    path: str | os.PathLike[str],
    backend: str,
    *,
    threads: int,
    device: Any = "cpu",
    cache: Path | None = None,
    build: "Callable[[int], Learner] | None" = None,
    sample: Any = None,
) -> Contender:
    """Load a run or a bundle for one backend, exporting what is not there yet.

    Args:
        path: the run or the bundle.
        backend: see :data:`BACKENDS`.
        threads: of each branch.
        device: where torch runs.
        cache: where to keep what is exported; None: :func:`default_cache`.
        build: for a run of networks of the user's own.
        sample: inputs to trace with, for learners that do not read images.

    Raises:
        QuorateError: it cannot be loaded.
        ValueError: the backend is not one that can run it here.
    """
    if backend not in (known := available_backends(path)):
        raise ValueError(f"backend must be one that can run {path} here, {' or '.join(known) or 'none'}: got {backend}")
    if backend == "torch":
        committee = load(path, device=device, build=build)
        assert committee.learners is not None
        networks: Any = whole_learners(committee.learners)
        return Contender(backend, committee, _whole(committee, networks, device))
    place = (cache or default_cache()) / _digest(path)
    bundle = Path(path)
    if not is_bundle(path):
        bundle = place / "branches"
        _keep(bundle, lambda: load(path, build=build).export(bundle, sample=sample))
    committee = load(bundle, backend=backend, threads=threads)  # type: ignore[arg-type]
    racing = _racing(bundle, backend, committee, threads)
    if find_spec("onnx") is None:
        whole = _whole(committee, EndToEnd(committee.networks), "cpu")
        return Contender(backend, committee, whole, joined=False, racing=racing)
    _keep(place / "whole", lambda: whole_bundle(read_bundle(bundle), place / "whole"))
    whole = load(place / "whole", backend=backend, threads=threads)  # type: ignore[arg-type]
    return Contender(backend, committee, whole, racing=racing)


def _racing(bundle: Path, backend: str, committee: Committee, threads: int) -> Committee:
    """The same branches with the threads divided between the workers of ``"parallel"``."""
    placed = divide(committee.macs, threads)
    networks = open_networks(read_bundle(bundle), backend, placed.threads)
    return Committee(
        networks, committee.policy, committee.macs, classes=committee.classes, inputs=committee.inputs,
        source="parallel", workers=placed.workers,
    )  # fmt: skip


def _whole(committee: Committee, networks: Any, device: Any) -> Committee:
    table = whole_macs(committee.macs, committee.networks.chained)
    return Committee(networks, Static(), table, classes=committee.classes, inputs=committee.inputs, device=device)


def _keep(folder: Path, make: Callable[[], None]) -> None:
    """Have a bundle in the cache; one that was damaged there is made anew."""
    if folder.exists():
        try:
            read_bundle(folder)
            return
        except QuorateError as error:
            warnings.warn(f"the cache is damaged and made anew: {error}", RuntimeWarning, stacklevel=3)
            shutil.rmtree(folder)
    make()


def _digest(path: str | os.PathLike[str]) -> str:
    """Of everything that a run's or a bundle's networks are made of."""
    total = hashlib.sha256()
    if is_bundle(path):
        total.update(repr(sorted(read_bundle(path).sha256.items())).encode())
    else:
        record = read_committee(RunFolder(path).committee)
        total.update(repr((record.macs, record.classes, record.chained)).encode())
        for one in record.learners:
            total.update(repr((sorted(one.network.items()), one.input)).encode())
            total.update((Path(path) / one.weights).read_bytes())
    return total.hexdigest()[:24]
