"""Loading committees from disk: runs with torch, bundles with ONNX Runtime alone.

This file does not know how branches run, nor what a run or a bundle looks like inside.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from quorate.engine.committee import SOURCES, Committee
from quorate.errors import QuorateError
from quorate.store.bundle import is_bundle, read_bundle
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder
from quorate.store.timings import read_timings

if TYPE_CHECKING:
    from quorate.nets.learner import Learner

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    *,
    backend: Literal["onnxruntime", "torch"] | None = None,
    source: Literal["lazy", "eager"] = "lazy",
    threads: int | None = None,
    device: Any = "cpu",
    build: "Callable[[int], Learner] | None" = None,
) -> Committee:
    """Load a committee: a bundle needs the base package and ONNX Runtime alone, a run needs torch.

    Args:
        path: the folder of a bundle or of a finished run.
        backend: ``"onnxruntime"`` for a bundle, ``"torch"`` for a run; None: the one that fits.
        source: as for :class:`Committee`.
        threads: for a bundle, how many each branch may use; None: all that this process may.
        device: for a run, where its learners run.
        build: for a run of networks of the user's own, gives learner ``k`` with any weights.

    Raises:
        QuorateError: one line, where it is missing, cut off, changed, foreign or too new. Nothing has run then.
        ModuleNotFoundError: ONNX Runtime is not installed.
        ValueError: for arguments that do not fit what is loaded.

    Example:
        >>> import quorate
        >>> quorate.load("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere: is neither a bundle (manifest.json) nor a finished run ...
    """
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
    kind = "onnxruntime" if is_bundle(path) else "torch" if RunFolder(path).committee.is_file() else None
    if kind is None:
        raise QuorateError(
            f"{Path(path)}: is neither a bundle (manifest.json) nor a finished run (committee.json): check the path"
        )
    if backend not in (None, kind):
        what = "bundle" if kind == "onnxruntime" else "run"
        raise ValueError(f"backend must be {kind!r} or None for a {what}, got {backend!r}")
    if kind == "onnxruntime":
        if build is not None or str(device) != "cpu":
            raise ValueError("device and build are for runs: a bundle holds its networks, which run on the CPU")
        return _load_bundle(path, source, threads)
    if threads is not None:
        raise ValueError("threads are for bundles: a run uses torch's own, see torch.set_num_threads")
    from quorate.engine.runs import load_run

    return load_run(path, source=source, device=device, build=build)


def _load_bundle(path: str | os.PathLike[str], source: Literal["lazy", "eager"], threads: int | None) -> Committee:
    bundle = read_bundle(path)
    timings = read_timings(path, bundle.macs.shape)
    try:
        from quorate.engine.onnx_networks import OnnxNetworks

        networks = OnnxNetworks(bundle, threads)
    except ModuleNotFoundError as error:
        if error.name != "onnxruntime":
            raise
        message = "a bundle runs with ONNX Runtime: pip install 'quorate[onnxruntime]'"
        raise ModuleNotFoundError(message, name="onnxruntime") from error
    with on_disk(bundle.path):
        committee = Committee(
            networks, bundle.policy, bundle.macs, classes=bundle.classes, inputs=bundle.inputs, source=source,
            timings=timings,
        )  # fmt: skip
        bundle.policy.start(1, committee.lattice)  # a policy for another committee says so
    return committee
