"""Weights of original DARTS networks (quark0/darts and everything derived from it).

The original numbers a cell's operations in the written order of the genotype, and the layers of an operation by their
place in a sequence. This file knows both numberings, and nothing of how a checkpoint is read from disk: load it with
``torch.load(path, weights_only=True)`` or from safetensors, and pass the dictionary.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from quorate.errors import QuorateError
from quorate.nets.cells import CellBlock
from quorate.nets.darts import DartsBranch, DartsLearner
from quorate.nets.ops import DilatedConv, FactorizedReduce, PointwiseBlock, SeparableConv

__all__ = ["load_darts_weights"]

_LAYERS: dict[type[nn.Module], dict[str, str]] = {
    PointwiseBlock: {"conv": "op.1", "norm": "op.2"},
    FactorizedReduce: {"even": "conv_1", "odd": "conv_2", "norm": "bn"},
    DilatedConv: {"depthwise": "op.1", "pointwise": "op.2", "norm": "op.3"},
    SeparableConv: {
        **{"depthwise": "op.1", "pointwise": "op.2", "norm": "op.3"},
        **{"depthwise2": "op.5", "pointwise2": "op.6", "norm2": "op.7"},
    },
}
_STEMS = {
    "cifar": {"conv": "stem.0", "norm": "stem.1"},
    "imagenet": {
        **{"conv1": "stem0.0", "norm1": "stem0.1", "conv2": "stem0.3", "norm2": "stem0.4"},
        **{"conv3": "stem1.1", "norm3": "stem1.2"},
    },
}


def load_darts_weights(learner: DartsLearner, state_dict: Mapping[str, Any]) -> None:
    """Copy the weights of an original DARTS network into a learner.

    The original has one classifier: it becomes the last head. The other heads stay as they are, because the original
    has none at their places; its auxiliary head, which stands elsewhere, is left out.

    Args:
        learner: of the same genotype *as written*, channels, cells, classes and stem.
        state_dict: the original network's, tensors or arrays by name (``module.`` in front is dropped).

    Raises:
        QuorateError: if weights are missing, left over, or of another shape. The learner is then unchanged.

    Note:
        DARTS_V1 writes the inputs of its first node as 1, 0. Its checkpoints fit a learner of DARTS_V1, not of its
        canonical form, although the two are equal.

    Example:
        >>> from quorate.nets import DARTS_V2, DartsLearner, load_darts_weights
        >>> learner = DartsLearner(DARTS_V2, channels=4, cells=4)
        >>> load_darts_weights(learner, {"classifier.weight": [[0.0]]})
        Traceback (most recent call last):
        ...
        quorate.errors.QuorateError: the checkpoint has no weight 'stem.0.weight' (nor 179 more): is it of ...
    """
    given = {name.removeprefix("module."): value for name, value in state_dict.items()}
    given = {
        n: v for n, v in given.items() if not n.startswith("auxiliary_head") and not n.endswith("num_batches_tracked")
    }
    wanted = dict(_original_names(learner))
    missing, left = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    for names, what in ((missing, "has no weight"), (left, "has a weight that the learner has not,")):
        if names:
            more = f" (nor {len(names) - 1} more)" if len(names) > 1 and names is missing else ""
            raise QuorateError(
                f"the checkpoint {what} {names[0]!r}{more}: is it of the genotype {learner.genotype.normal[0][0]}..., "
                f"written in this order, with {learner.cells} cells and stem={learner.stem!r}?"
            )
    values = {name: torch.as_tensor(given[name]) for name in wanted}
    for name, target in wanted.items():
        if values[name].shape != target.shape:
            raise QuorateError(
                f"the checkpoint's {name!r} must have shape {tuple(target.shape)}, got {tuple(values[name].shape)}: "
                f"is it of {learner.channels} channels and {learner.classes} classes?"
            )
    with torch.no_grad():
        for name, target in wanted.items():
            target.copy_(values[name])


def _original_names(learner: DartsLearner) -> Iterator[tuple[str, Tensor]]:
    """Every weight and running statistic of the learner by its name in the original."""
    index = 0
    for branch in learner.branches:
        assert isinstance(branch, DartsBranch)
        if branch.stem is not None:
            yield from _weights(branch.stem, _STEMS[learner.stem], "")
        for cell in branch.cells:
            assert isinstance(cell, CellBlock)
            yield from _weights(cell.older, _LAYERS[type(cell.older)], f"cells.{index}.preprocess0.")
            yield from _weights(cell.newer, _LAYERS[type(cell.newer)], f"cells.{index}.preprocess1.")
            for number, edge in enumerate(cell.edges):
                yield from _weights(edge, _LAYERS.get(type(edge), {}), f"cells.{index}._ops.{number}.")
            index += 1
    head = learner.branches[-1].head
    assert isinstance(head, nn.Module)
    yield from _weights(head, {"linear": "classifier"}, "")


def _weights(module: nn.Module, layers: Mapping[str, str], prefix: str) -> Iterator[tuple[str, Tensor]]:
    for ours, original in layers.items():
        layer = module.get_submodule(ours)
        for name, tensor in (*layer.named_parameters(), *layer.named_buffers()):
            if name != "num_batches_tracked":
                yield f"{prefix}{original}.{name}", tensor
