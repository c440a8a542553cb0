"""What a recorded forward pass is: calls, the tensors between them, and where the exits are.

This file does not know how one comes about (:mod:`quorate.nets.tracing`) nor what is done with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Attr", "Call", "Recording", "Ref", "Varying", "first_tensor", "like", "tensor_at", "tensors_in"]


class Ref(NamedTuple):
    """A tensor that an earlier call gave: which call, and where in its output. Call -1 - i is input i."""

    call: int
    path: tuple[Any, ...] = ()


class Attr(NamedTuple):
    """A parameter or buffer of the network, by name, or a tensor it made elsewhere."""

    name: str
    value: Tensor


class Varying(NamedTuple):
    """A constant of a call that differs between runs: ``a n + b`` with the batch, or by mode."""

    a: int = 0
    b: int = 0
    train: Any = None
    eval: Any = None
    by_mode: bool = False


@dataclass
class Call:
    """One recorded call: a module's name or a function, its arguments, and what it gave.

    Attributes:
        target: a name for modules, otherwise the function.
        args: arguments with tensors as :class:`Ref` or :class:`Attr`.
        kwargs: likewise.
        out: the output, kept alive so that no other tensor takes its identity.
        where: the module whose ``forward`` made the call.
        detached: whether it ran without gradients.
        writes: which of the tensors it was given it changed in place.
        in_place: whether it changed any, parameters and buffers too.
    """

    target: str | Callable[..., Any]
    args: Any
    kwargs: Any
    out: Any
    where: str
    detached: bool
    writes: frozenset[Ref] = frozenset()
    in_place: bool = False

    @property
    def name(self) -> str:
        """What to call it in a message."""
        if isinstance(self.target, str):
            return f"module {self.target!r}"
        return f"{getattr(self.target, '__name__', self.target)}() in {self.where}"


@dataclass
class Recording:
    """The calls of one run, the exits and the output.

    Attributes:
        calls: in the order they were made.
        exits: per exit its first tensor and how many calls had been made when it was there.
        output: the network's first output tensor: logits, if it names any.
        output_shape: its shape.
        inputs: the tensors without numbers that the network read.
        own_linear: the name of the linear layer whose output, once and as it is, is the network's; or none.
        last_layer: the name of the last layer with a weight matrix that ran; or none.
    """

    calls: list[Call]
    exits: dict[str, tuple[Ref, int]]
    output: Ref
    output_shape: torch.Size
    inputs: Sequence[Tensor] = ()
    own_linear: str = ""
    last_layer: str = ""


def first_tensor(value: Any) -> Any:
    """The tensor a caller would call the result: ``logits``, else ``pooler_output``, else the first one; or None.

    Example:
        >>> import torch
        >>> from quorate.nets.recording import first_tensor
        >>> first_tensor({"loss": None, "logits": torch.zeros(2)}).shape
        torch.Size([2])
    """
    if isinstance(value, Mapping):
        for key in ("logits", "pooler_output"):
            if isinstance(value.get(key), Tensor):
                return value[key]
    return next((tensor for _, tensor in tensors_in(value)), None)


def tensor_at(recording: Recording, ref: Ref) -> Tensor:
    """The tensor without numbers that a reference to a call means.

    Example:
        >>> import torch
        >>> from quorate.nets.recording import Call, Recording, Ref, tensor_at
        >>> call = Call("layer", (), {}, (torch.zeros(2), torch.zeros(3)), "", False)
        >>> tensor_at(Recording([call], {}, Ref(0, (0,)), torch.Size([2])), Ref(0, (1,))).shape
        torch.Size([3])
    """
    value = recording.inputs[-1 - ref.call] if ref.call < 0 else recording.calls[ref.call].out
    for key in ref.path:
        value = getattr(value, key[1:]) if isinstance(key, str) and key.startswith(".") else value[key]
    assert isinstance(value, Tensor)
    return value


def like(value: Sequence[Any], items: Sequence[Any]) -> Sequence[Any]:
    """The items in a list, a tuple or a named tuple, as the value is.

    Example:
        >>> from quorate.nets.recording import Ref, like
        >>> like(Ref(1), [2, ("a",)])
        Ref(call=2, path=('a',))
    """
    if hasattr(value, "_fields"):
        return type(value)(*items)
    return list(items) if isinstance(value, list) else tuple(items)


def tensors_in(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """The tensors in a structure, each with the way to it: indices, keys, or names of fields."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from tensors_in(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from tensors_in(item, (*path, index))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from tensors_in(getattr(value, field.name), (*path, f".{field.name}"))
