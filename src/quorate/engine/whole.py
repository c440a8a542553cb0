"""Whole networks without early heads: what a committee is measured against, and never ships.

The graphs of a bundle's branches are joined end to end, and what only early exits needed is cut off.

Shapes: ``E`` exits, ``K`` learners. This file does not know how graphs are run, nor what is measured.
"""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from quorate.squad import Static
from quorate.store.atomic import write_atomic
from quorate.store.bundle import Bundle, write_manifest
from quorate.store.folders import new_folder
from quorate.store.policies import write_policy

if TYPE_CHECKING:
    from quorate.nets.learner import Learner

__all__ = ["whole_bundle", "whole_learners", "whole_macs"]


def whole_macs(macs_EK: Any, chained: bool) -> np.ndarray[Any, Any]:
    """``[1, K]``: the cost of each learner as one branch.

    Note:
        Early heads are counted, though whole networks do not run them: a table does not tell them from their blocks.

    Example:
        >>> whole_macs([[1.0, 2.0], [3.0, 4.0]], chained=True)
        array([[4., 6.]])
    """
    table = np.asarray(macs_EK, dtype=np.float64)
    return table.sum(0, keepdims=True) if chained else table[-1:]


def whole_bundle(bundle: Bundle, path: str | os.PathLike[str]) -> None:
    """Write a bundle of one exit, whose branches are the whole networks of another bundle, without their early heads.

    Args:
        bundle: of branches.
        path: a folder that does not exist, or is empty.

    Raises:
        ModuleNotFoundError: the package ``onnx``, which joins graphs, is not installed.
    """
    with new_folder(path, "bundle") as draft:
        write_policy(Static(), draft / "policy.json")
        files = [f"whole_{k}.onnx" for k in range(len(bundle.inputs))]
        for k, name in enumerate(files):
            write_atomic(draft / name, _joined(bundle, k))
        write_manifest(
            draft,
            macs=whole_macs(bundle.macs, bundle.chained),
            classes=bundle.classes,
            branches=[files],
            inputs=bundle.inputs,
            names=bundle.names,
            chained=True,
            about={"whole": True},
        )


def _joined(bundle: Bundle, k: int) -> bytes:
    import onnx
    from onnx import compose

    files = [row[k] for row in bundle.branches if row[k] is not None]
    graphs = [
        compose.add_prefix(onnx.load_from_string(bundle.data(str(file))), f"{place}.")
        for place, file in enumerate(files if bundle.chained else files[-1:])
    ]
    whole = graphs[0]
    for graph in graphs[1:]:
        carried = [value.name for value in whole.graph.output][:-1]  # its logits are what nobody needs
        read = [value.name for value in graph.graph.input]
        given = [value.name for value in graph.graph.output]
        whole = compose.merge_models(whole, graph, io_map=list(zip(carried, read, strict=True)), outputs=given)
    data: bytes = whole.SerializeToString()
    return data


def whole_learners(learners: "tuple[Learner, ...]") -> "list[Learner]":
    """Learners of torch as networks of one exit, which run no early head.

    Example:
        >>> import torch
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner, x = DartsLearner(DARTS_V2, channels=2, cells=3).eval(), torch.randn(1, 3, 8, 8)
        >>> (whole,) = whole_learners((learner,))
        >>> whole.num_exits, bool(torch.equal(whole(x)[0], learner(x)[-1]))
        (1, True)
    """
    import copy

    from torch import Tensor, nn

    from quorate.nets.learner import Learner

    class NoHead(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.new_empty(len(x), 0)

    class Whole(nn.Module):
        def __init__(self, branches: "list[nn.Module]") -> None:
            super().__init__()
            self.branches = nn.ModuleList(branches)

        def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
            for branch in self.branches:
                *state, logits = branch(*state)
            return (logits,)

    made = []
    for learner in learners:
        branches = list(copy.deepcopy(learner).branches)
        for branch in branches[:-1]:
            if hasattr(branch, "head"):
                branch.head = NoHead()
        run = branches if learner.chained else branches[-1:]
        made.append(Learner([Whole(run)], learner.classes, inputs=learner.inputs))
    return made
