"""Loading committees from disk: runs with torch, bundles with ONNX Runtime or OpenVINO alone.

This file does not know how branches run, nor what a run or a bundle looks like inside.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quorate.engine.choices import SourceName, check_source
from quorate.engine.committee import Committee
from quorate.engine.networks import Networks
from quorate.engine.placement import place, usable_cores
from quorate.errors import QuorateError
from quorate.store.bundle import Bundle, is_bundle, read_bundle
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder
from quorate.store.timings import read_timings

if TYPE_CHECKING:
    from quorate.nets.learner import Learner

__all__ = ["load", "open_networks"]


def load(
    path: str | os.PathLike[str],
    *,
    backend: Literal["onnxruntime", "openvino", "torch"] | None = None,
    source: SourceName = "lazy",
    threads: int | None = None,
    workers: int | None = None,
    device: Any = "cpu",
    build: "Callable[[int], Learner] | None" = None,
) -> Committee:
    """Load a committee: a bundle needs the base package and ONNX Runtime or OpenVINO alone, a run needs torch.

    Args:
        path: the folder of a bundle or of a finished run.
        backend: ``"onnxruntime"`` or ``"openvino"`` for a bundle, ``"torch"`` for a run; None: the first that fits.
        source: as for :class:`Committee`.
        threads: for a bundle, how many each branch may use; None: all that this process may, divided between the
            workers of ``"parallel"``.
        workers: as for :class:`Committee`.
        device: for a run, where its learners run.
        build: for a run of networks of the user's own, gives learner ``k`` with any weights.

    Raises:
        QuorateError: one line, where it is missing, cut off, changed, foreign or too new. Nothing has run then.
        ModuleNotFoundError: the runtime is not installed.
        ValueError: for arguments that do not fit what is loaded.

    Example:
        >>> import quorate
        >>> quorate.load("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere: is neither a bundle (manifest.json) nor a finished run ...
    """
    check_source(source)
    bundled = is_bundle(path)
    if not bundled and not RunFolder(path).committee.is_file():
        raise QuorateError(
            f"{Path(path)}: is neither a bundle (manifest.json) nor a finished run (committee.json): check the path"
        )
    fitting = ("onnxruntime", "openvino") if bundled else ("torch",)
    if backend is not None and backend not in fitting:
        known = " or ".join(map(repr, fitting))
        raise ValueError(f"backend must be {known} or None for a {'bundle' if bundled else 'run'}, got {backend!r}")
    if bundled:
        if build is not None or str(device) != "cpu":
            raise ValueError("device and build are for runs: a bundle holds its networks, which run on the CPU")
        return _load_bundle(path, backend or "onnxruntime", source, threads, workers)
    if threads is not None:
        raise ValueError("threads are for bundles: a run uses torch's own, see torch.set_num_threads")
    from quorate.engine.runs import load_run

    return load_run(path, source=source, workers=workers, device=device, build=build)


def _load_bundle(
    path: str | os.PathLike[str], backend: str, source: SourceName, threads: int | None, workers: int | None
) -> Committee:
    bundle = read_bundle(path)
    timings = read_timings(path, bundle.macs.shape)
    racing = place(bundle.macs, usable_cores(), workers, threads)
    networks = open_networks(bundle, backend, racing.threads if source == "parallel" else threads)
    others = open_networks(bundle, backend, racing.threads) if source == "auto" else None
    with on_disk(bundle.path):
        committee = Committee(
            networks, bundle.policy, bundle.macs, classes=bundle.classes, inputs=bundle.inputs, source=source,
            workers=racing.workers, racing=others, timings=timings,
        )  # fmt: skip
        bundle.policy.start(1, committee.lattice)  # a policy for another committee says so
    return committee


def open_networks(bundle: Bundle, backend: str, threads: int | Sequence[int] | None = None) -> Networks:
    """The branches of a bundle on one of the runtimes that read it.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    try:
        if backend == "openvino":
            from quorate.engine.openvino_networks import OpenVinoNetworks

            return OpenVinoNetworks(bundle, threads)
        from quorate.engine.onnx_networks import OnnxNetworks

        return OnnxNetworks(bundle, threads)
    except ModuleNotFoundError as error:
        if error.name != backend:
            raise
        name = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}[backend]
        message = f"a bundle runs with {name}: pip install 'quorate[{backend}]'"
        raise ModuleNotFoundError(message, name=backend) from error
