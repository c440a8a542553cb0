"""The head a network has already: found, and replaced where it gives another number of classes.

Shapes: ``B`` samples.

This file does not know how a network is cut.
"""

import copy
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from quorate.nets.heads import make_head
from quorate.nets.recording import Recording, tensor_at
from quorate.nets.tracing import is_layer

__all__ = ["LastHead", "last_head", "layers_run"]


class LastHead(NamedTuple):
    """What reads a network's output, what is replaced in it before, and what is trained where all else is frozen."""

    head: nn.Module
    replaced: dict[str, nn.Module]
    trained: nn.Module | None


def last_head(model: nn.Module, recording: Recording, classes: int, token: Literal["mean", "first"]) -> LastHead:
    """The network's own head where it gives ``classes`` values.

    Otherwise the linear layer whose output is the network's, if there is one and it runs once, is replaced by a new
    one; in every other case a new head reads the network's output.
    """
    shape = recording.output_shape
    if len(shape) == 2 and shape[1] == classes:
        layer = recording.own_linear or recording.last_layer
        return LastHead(nn.Identity(), {}, model.get_submodule(layer) if layer else None)
    if len(shape) == 2 and recording.own_linear:
        call, name = _call_with(recording, recording.own_linear)
        module, linear = _with_new_linear(model.get_submodule(call), name, classes)
        return LastHead(nn.Identity(), {call: module}, linear)
    output = tensor_at(recording, recording.output)
    return LastHead(make_head(shape, classes, token).to(output.device, output.dtype), {}, None)


def layers_run(module: nn.Module, state: Sequence[Tensor]) -> tuple[Any, nn.Module | None]:
    """What a module gives, and the last layer with a weight matrix that ran in it."""
    layers: list[nn.Module] = []
    handles = [
        inner.register_forward_hook(lambda layer, args, out: layers.append(layer))
        for inner in module.modules()
        if is_layer(inner)
    ]
    try:
        out = module(*state)
    finally:
        for handle in handles:
            handle.remove()
    return out, layers[-1] if layers else None


def _call_with(recording: Recording, name: str) -> tuple[str, str]:
    """The recorded call of a module that holds the named one, and the name inside it."""
    for call in recording.calls:
        if isinstance(call.target, str) and (call.target == name or name.startswith(f"{call.target}.")):
            return call.target, name[len(call.target) + 1 :]
    raise AssertionError(name)


def _with_new_linear(module: nn.Module, name: str, classes: int) -> tuple[nn.Module, nn.Linear]:
    """The module with one linear layer replaced, and that; everything else is shared, nothing is written to it."""
    first, _, rest = name.partition(".")
    if not first:
        assert isinstance(module, nn.Linear)
        weight = module.weight
        new = nn.Linear(module.in_features, classes, module.bias is not None, weight.device, weight.dtype)
        return new, new
    clone = copy.copy(module)
    clone._modules = dict(module._modules)
    child = module._modules[first]
    assert child is not None
    clone._modules[first], new = _with_new_linear(child, rest, classes)
    return clone, new
