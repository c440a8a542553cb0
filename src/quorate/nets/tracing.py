"""Record what a network's forward pass calls, above the level of its exits (paper, "Arch Adapter").

The network runs with tensors that have shapes but no numbers. Modules that contain no exit are recorded as one call
each, whatever is inside them; in the modules around the exits every framework function is. Four such runs are compared:
what changes with the batch is an integer ``a n + b`` of the batch size ``n``; what changes with ``train()`` is a pair
of constants. Anything else that changes cannot be cut, and says so.

This file does not know what is done with a recording (:mod:`quorate.nets.cutting` builds branches of it), nor heads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode

from quorate.nets.learner import Inputs

__all__ = ["Attr", "Call", "Recording", "Ref", "Varying", "first_tensor", "record", "tensor_at"]

BATCHES = (7, 11, 13)
"""Batch sizes of the runs: primes that rarely are a width; two give ``a n + b``, the third checks it."""


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
    """

    target: str | Callable[..., Any]
    args: Any
    kwargs: Any
    out: Any
    where: str
    detached: bool

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
    """

    calls: list[Call]
    exits: dict[str, tuple[Ref, int]]
    output: Ref
    output_shape: torch.Size


def first_tensor(value: Any) -> Any:
    """The tensor a caller would call the result: ``logits``, else ``pooler_output``, else the first one; or None.

    Example:
        >>> import torch
        >>> from quorate.nets.tracing import first_tensor
        >>> first_tensor({"loss": None, "logits": torch.zeros(2)}).shape
        torch.Size([2])
    """
    if isinstance(value, Mapping):
        for key in ("logits", "pooler_output"):
            if isinstance(value.get(key), Tensor):
                return value[key]
    return next((tensor for _, tensor in _tensors(value)), None)


def tensor_at(recording: Recording, ref: Ref) -> Tensor:
    """The tensor without numbers that a reference to a call means.

    Example:
        >>> import torch
        >>> from quorate.nets.tracing import Call, Recording, Ref, tensor_at
        >>> call = Call("layer", (), {}, (torch.zeros(2), torch.zeros(3)), "", False)
        >>> tensor_at(Recording([call], {}, Ref(0, (0,)), torch.Size([2])), Ref(0, (1,))).shape
        torch.Size([3])
    """
    value = recording.calls[ref.call].out
    for key in ref.path:
        value = getattr(value, key[1:]) if isinstance(key, str) and key.startswith(".") else value[key]
    assert isinstance(value, Tensor)
    return value


def record(model: nn.Module, exits: list[str], inputs: Inputs, *, batch: int, training: bool) -> Recording:
    """Run the model once on tensors without numbers and record the calls.

    Args:
        model: the network; its mode is set for the run and restored.
        exits: names of submodules.
        inputs: what it reads; only shapes, types and devices count.
        batch: how many samples the run pretends to have.
        training: in which mode.

    Raises:
        ValueError: if an exit is not called once, or control flow depends on data.
    """
    recorder = _Recorder(model, exits)
    modes = {module: module.training for module in model.modules()}
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        model.train(training)
        torch.backends.mha.set_fastpath_enabled(False)
        with fake:
            args, kwargs = _arguments(inputs, batch)
            for i, tensor in enumerate((*args, *kwargs.values())):
                recorder.known[id(tensor)] = Ref(-1 - i)
                recorder.alive.append(tensor)
            with recorder.spared_buffers(fake), recorder.hooks(), recorder:
                output = _run(model, args, kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for module, mode in modes.items():
            module.training = mode
    return recorder.recording(output)


def _run(model: nn.Module, args: Sequence[Tensor], kwargs: Mapping[str, Tensor]) -> Any:
    try:
        return model(*args, **kwargs)
    except (RuntimeError, TypeError) as error:
        shapes = [tuple(t.shape) for t in (*args, *kwargs.values())]
        raise ValueError(f"the network cannot read tensors like the sample, here of shape {shapes}: {error}") from error


def _arguments(inputs: Inputs, batch: int) -> tuple[list[Tensor], dict[str, Tensor]]:
    def resized(x: Tensor) -> Tensor:
        return torch.empty((batch, *x.shape[1:]), dtype=x.dtype, device=x.device)

    if isinstance(inputs, Tensor):
        return [resized(inputs)], {}
    if isinstance(inputs, Mapping):
        return [], {name: resized(x) for name, x in inputs.items()}
    return [resized(x) for x in inputs], {}


_IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__idiv__", "__itruediv__", "__iand__", "__ior__")


class _Recorder(TorchFunctionMode):
    def __init__(self, model: nn.Module, exits: list[str]) -> None:
        super().__init__()
        self.model, self.wanted = model, exits
        self.around = {name[:i] for name in exits for i in range(len(name)) if name[i] == "."} | {""}
        self.attributes = {id(t): (name, t) for name, t in (*model.named_parameters(), *model.named_buffers())}
        self.known: dict[int, Ref] = {}
        self.alive: list[Any] = []
        self.calls: list[Call] = []
        self.exits: dict[str, tuple[Ref, int]] = {}
        self.stack: list[str] = []
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            name = getattr(func, "__name__", str(func))
            raise ValueError(
                f"the network cannot be cut: {name}() in {self._where()} depends on the data, not only on its shape; "
                "keep such steps inside one stage, and pass the stages yourself: attach_exits([stage, ...], ...)"
            ) from error
        changes = getattr(func, "__name__", "") in _IN_PLACE
        if not self.inside and (changes or next(_tensors(out), None) is not None):
            self._add(func, args, kwargs, out)
        return out

    @contextmanager
    def spared_buffers(self, fake: FakeTensorMode) -> Iterator[None]:
        """Buffers without numbers in place of the network's: a run in training writes to them."""
        held = [(m, name, b) for m in self.model.modules() for name, b in m._buffers.items() if b is not None]
        copies = {id(buffer): fake.from_tensor(buffer) for _, _, buffer in held}
        try:
            for module, name, buffer in held:
                module._buffers[name] = copies[id(buffer)]
                self.attributes[id(copies[id(buffer)])] = self.attributes[id(buffer)]
            yield
        finally:
            for module, name, buffer in held:
                module._buffers[name] = buffer

    @contextmanager
    def hooks(self) -> Iterator[None]:
        handles = []
        for name, module in self.model.named_modules():
            opaque = name not in self.around
            handles += [
                module.register_forward_pre_hook(self._before(name, opaque)),
                module.register_forward_hook(self._after(name, opaque), with_kwargs=True),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def recording(self, output: Any) -> Recording:
        for name in self.wanted:
            if name not in self.exits:
                raise ValueError(
                    f"the network cannot be cut at {name!r}: its forward pass never calls that submodule; "
                    "name one that it calls"
                )
        tensor = first_tensor(output)
        if tensor is None:
            raise ValueError("the network must give a tensor, or a structure with one")
        return Recording(self.calls, self.exits, self._ref(tensor), tensor.shape)

    def _before(self, name: str, opaque: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any) -> None:
            self.stack.append(name)
            self.inside += opaque

        return hook

    def _after(self, name: str, opaque: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            self.stack.pop()
            self.inside -= opaque
            if opaque and not self.inside:
                self._add(name, args, kwargs, out)
            if name in self.wanted:
                self._exit(name, out)

        return hook

    def _exit(self, name: str, out: Any) -> None:
        if name in self.exits:
            raise ValueError(f"the network cannot be cut at {name!r}: its forward pass calls that submodule twice")
        tensor = first_tensor(out)
        if tensor is None:
            raise ValueError(f"the network cannot be cut at {name!r}: that submodule gives no tensor")
        self.exits[name] = self._ref(tensor), len(self.calls)

    def _add(self, target: Any, args: Any, kwargs: Any, out: Any) -> None:
        args, kwargs = self._named(args), self._named(kwargs)
        index = len(self.calls)
        self.calls.append(Call(target, args, kwargs, out, self._where(), not torch.is_grad_enabled()))
        for path, tensor in _tensors(out):
            self.known[id(tensor)] = Ref(index, path)

    def _named(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._ref(value)
        if isinstance(value, tuple | list):
            return tuple(map(self._named, value)) if isinstance(value, tuple) else list(map(self._named, value))
        if isinstance(value, dict):
            return {key: self._named(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self._named(value.start), self._named(value.stop), self._named(value.step))
        return value

    def _ref(self, tensor: Tensor) -> Any:
        if id(tensor) in self.known:
            return self.known[id(tensor)]
        self.alive.append(tensor)
        return Attr(*self.attributes.get(id(tensor), ("", tensor)))

    def _where(self) -> str:
        name = self.stack[-1] if self.stack else ""
        return f"submodule {name!r}" if name else f"the forward of {type(self.model).__name__}"


def _tensors(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """The tensors in a structure, each with the way to it: indices, keys, or names of fields."""
    if isinstance(value, Tensor):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _tensors(item, (*path, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _tensors(item, (*path, index))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _tensors(getattr(value, field.name), (*path, f".{field.name}"))
