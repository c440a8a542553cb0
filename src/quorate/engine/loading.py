"""Loading committees from disk.

This file does not know how branches run, nor what a bundle looks like inside.
"""

import os
from pathlib import Path
from typing import Literal

from quorate.engine.committee import SOURCES, Committee
from quorate.errors import QuorateError
from quorate.store.bundle import is_bundle, read_bundle
from quorate.store.faults import on_disk

__all__ = ["load"]


def load(
    path: str | os.PathLike[str],
    *,
    backend: Literal["onnxruntime"] | None = None,
    source: Literal["lazy", "eager"] = "lazy",
    threads: int | None = None,
) -> Committee:
    """Load a bundle: with the base package and ONNX Runtime alone, without torch.

    Args:
        path: its folder.
        backend: ``"onnxruntime"``, which a bundle is for; None is the same.
        source: as for :class:`Committee`.
        threads: how many each branch may use; None: all that this process may.

    Raises:
        QuorateError: one line, where the bundle is missing, cut off, changed, foreign or too new. Nothing has run then.
        ModuleNotFoundError: ONNX Runtime is not installed.

    Example:
        >>> import quorate
        >>> quorate.load("/nowhere")
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere: is no bundle: a folder with a manifest.json; export one with ...
    """
    if backend not in (None, "onnxruntime"):
        raise ValueError(f"backend must be 'onnxruntime' or None for a bundle, got {backend!r}")
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
    if not is_bundle(path):
        raise QuorateError(
            f"{Path(path)}: is no bundle: a folder with a manifest.json; export one with committee.export(path)"
        )
    bundle = read_bundle(path)
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
            networks, bundle.policy, bundle.macs, classes=bundle.classes, inputs=bundle.inputs, source=source
        )
        bundle.policy.start(1, committee.lattice)  # a policy for another committee says so
    return committee
