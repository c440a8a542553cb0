"""Record what a network's forward pass calls, above the level of its exits (paper, "Arch Adapter").

The network runs with tensors that have shapes but no numbers. Modules that contain no exit are recorded as one call
each, whatever is inside them; in the modules around the exits every framework function is. Four such runs are compared:
what changes with the batch is an integer ``a n + b`` of the batch size ``n``; what changes with ``train()`` is a pair
of constants. Anything else that changes cannot be cut, and says so.

This file does not know what is done with a recording (:mod:`quorate.nets.cutting` builds branches of it), nor heads.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.overrides import TorchFunctionMode

from quorate.nets.learner import Inputs
from quorate.nets.recording import Attr, Call, Recording, Ref, first_tensor, like, tensors_in
from quorate.nets.restoring import held_tensors, kept_as_it_was, kept_modes

__all__ = ["BATCHES", "is_layer", "record"]

BATCHES = (7, 11, 1)
"""Batch sizes of the runs: primes that rarely are a width give ``a n + b``; the third, one sample, checks it."""


def is_layer(module: nn.Module) -> bool:
    """Whether a module is a layer with a weight matrix, rather than made of other modules.

    Example:
        >>> from torch import nn
        >>> from quorate.nets.tracing import is_layer
        >>> is_layer(nn.Linear(2, 2)), is_layer(nn.LayerNorm(2)), is_layer(nn.Sequential(nn.Linear(2, 2)))
        (True, False, False)
    """
    return not module._modules and any(parameter.dim() > 1 for parameter in module.parameters())


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
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    fast = torch.backends.mha.get_fastpath_enabled()
    try:
        torch.backends.mha.set_fastpath_enabled(False)
        with kept_modes(model.modules()), kept_as_it_was(model), fake:
            model.train(training)
            args, kwargs = _arguments(inputs, batch)
            for i, tensor in enumerate((*args, *kwargs.values())):
                recorder.known[id(tensor)] = Ref(-1 - i)
                recorder.inputs.append(tensor)
            recorder.spare_buffers(fake)
            before = held_tensors(recorder.modules_around())
            with recorder.hooks(), recorder:
                output = _run(model, args, kwargs)
            _check_kept(before, held_tensors(recorder.modules_around()))
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return recorder.recording(output)


def _check_kept(before: Mapping[tuple[str, str], Tensor], after: Mapping[tuple[str, str], Tensor]) -> None:
    for (where, name), tensor in before.items():
        if after.get((where, name)) is not tensor:
            raise ValueError(
                f"the network cannot be cut: its forward pass puts another tensor in place of {name!r} of "
                f"{f'submodule {where!r}' if where else 'the network'}; write into it instead, with copy_()"
            )


def _run(model: nn.Module, args: Sequence[Tensor], kwargs: Mapping[str, Tensor]) -> Any:
    try:
        return model(*args, **kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise ValueError(
            f"the network cannot be cut: {error} depends on the data, not only on its shape; {_STAGES}"
        ) from error
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


_STAGES = "keep such steps inside one stage, and pass the stages yourself: attach_exits([stage, ...], ...)"


class _Recorder(TorchFunctionMode):
    def __init__(self, model: nn.Module, exits: list[str]) -> None:
        super().__init__()
        self.model, self.wanted = model, exits
        self.around = {name[:i] for name in exits for i in range(len(name)) if name[i] == "."} | {""}
        self.attributes = {id(t): (name, t) for name, t in (*model.named_parameters(), *model.named_buffers())}
        self.known: dict[int, Ref] = {}
        self.alive: list[Any] = []
        self.inputs: list[Tensor] = []
        self.layers: list[tuple[str, Any]] = []
        self.calls: list[Call] = []
        self.exits: dict[str, tuple[Ref, int]] = {}
        self.stack: list[str] = []
        self.versions: list[list[tuple[Tensor, int]]] = []
        self.inside = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        versions = [] if self.inside else _versions((args, kwargs))
        try:
            out = func(*args, **kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            name = getattr(func, "__name__", str(func))
            raise ValueError(
                f"the network cannot be cut: {name}() in {self._where()} depends on the data, not only on its shape; "
                + _STAGES
            ) from error
        if not self.inside:
            changed = _changed(versions)
            if changed or next(tensors_in(out), None) is not None:
                self._add(func, args, kwargs, out, changed)
        return out

    def modules_around(self) -> list[tuple[str, nn.Module]]:
        """The modules whose forward pass is recorded."""
        return [(name, module) for name, module in self.model.named_modules() if name in self.around]

    def spare_buffers(self, fake: FakeTensorMode) -> None:
        """Put buffers without numbers in place of the network's: a run in training writes to them."""
        held = [(m, name, b) for m in self.model.modules() for name, b in m._buffers.items() if b is not None]
        copies = {id(buffer): fake.from_tensor(buffer) for _, _, buffer in held}
        for module, name, buffer in held:
            module._buffers[name] = copies[id(buffer)]
            self.attributes[id(copies[id(buffer)])] = self.attributes[id(buffer)]

    @contextmanager
    def hooks(self) -> Iterator[None]:
        handles = []
        for name, module in self.model.named_modules():
            opaque = name not in self.around
            handles += [
                module.register_forward_pre_hook(self._before(name, opaque), with_kwargs=True),
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
        return Recording(
            self.calls,
            self.exits,
            self._ref(tensor),
            tensor.shape,
            self.inputs,
            self._own_linear(tensor),
            self.layers[-1][0] if self.layers else "",
        )

    def _own_linear(self, output: Tensor) -> str:
        names = [name for name, out in self.layers if out is output]
        once = len(names) == 1 and sum(name == names[0] for name, _ in self.layers) == 1
        return names[0] if once and isinstance(self.model.get_submodule(names[0]), nn.Linear) else ""

    def _before(self, name: str, opaque: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            self.stack.append(name)
            if opaque and not self.inside:
                self.versions.append(_versions((args, kwargs)))
            self.inside += opaque

        return hook

    def _after(self, name: str, opaque: bool) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any, out: Any) -> None:
            self.stack.pop()
            self.inside -= opaque
            if is_layer(module):
                self.layers.append((name, out))
            if opaque and not self.inside:
                self._add(name, args, kwargs, out, _changed(self.versions.pop()))
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

    def _add(self, target: Any, args: Any, kwargs: Any, out: Any, changed: Sequence[Tensor]) -> None:
        args, kwargs = self._named(args), self._named(kwargs)
        index = len(self.calls)
        writes = frozenset(self.known[id(tensor)] for tensor in changed if id(tensor) in self.known)
        detached = not torch.is_grad_enabled()
        self.calls.append(Call(target, args, kwargs, out, self._where(), detached, writes, bool(changed)))
        for path, tensor in tensors_in(out):
            self.known[id(tensor)] = Ref(index, path)

    def _named(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._ref(value)
        if isinstance(value, tuple | list):
            return like(value, [self._named(item) for item in value])
        if isinstance(value, dict):
            return {key: self._named(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self._named(value.start), self._named(value.stop), self._named(value.step))
        unknown = isinstance(value, Mapping) or (is_dataclass(value) and not isinstance(value, type))
        if unknown and next(tensors_in(value), None) is not None:
            raise ValueError(
                f"the network cannot be cut: {self._where()} passes tensors in a {type(value).__name__} from one "
                f"step to the next; pass a tuple, a list or a dict, or {_STAGES}"
            )
        return value

    def _ref(self, tensor: Tensor) -> Any:
        if id(tensor) in self.known:
            return self.known[id(tensor)]
        self.alive.append(tensor)
        return Attr(*self.attributes.get(id(tensor), ("", tensor)))

    def _where(self) -> str:
        name = self.stack[-1] if self.stack else ""
        return f"submodule {name!r}" if name else f"the forward of {type(self.model).__name__}"


def _versions(value: Any) -> list[tuple[Tensor, int]]:
    """How often each tensor has been written to so far; views share the count."""
    return [(tensor, tensor._version) for _, tensor in tensors_in(value) if not tensor.is_inference()]


def _changed(versions: Sequence[tuple[Tensor, int]]) -> list[Tensor]:
    return [tensor for tensor, version in versions if tensor._version != version]
