"""Build branches from a recording: graphs that run one after the other and carry the tensors that cross a cut.

Shapes: every state tensor, and what an exit shows, gets its samples as first dimension, whatever the network does
inside: a tensor ``[T, B, C]`` crosses a cut as ``[B, T, C]``, one of ``B a`` rows as ``[B, a, ...]``. What does not
depend on the input (positions, tokens of the network's own) is computed again rather than carried.

This file does not know heads, nor how a recording came about.
"""

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quorate.nets.comparing import batch_dimension
from quorate.nets.recording import Attr, Recording, Ref, Varying, like, tensor_at, tensors_in

__all__ = ["Segment", "cut"]


class ByMode(nn.Module):
    """A constant that differs between training and evaluation."""

    def __init__(self, train: Any, evaluation: Any) -> None:
        super().__init__()
        self.values = {True: train, False: evaluation}

    def forward(self) -> Any:
        return self.values[self.training]


Segment = torch.fx.GraphModule
"""``segment(*state) -> (*next state, features)``: one branch without its head."""


def cut(
    model: nn.Module,
    recording: Recording,
    wide: Recording,
    cuts: Sequence[tuple[Ref, int]],
    inputs: int,
    sizes: tuple[int, ...],
    replaced: dict[str, nn.Module],
) -> list[Segment]:
    """Cut a recording into graphs.

    Args:
        model: whose submodules and parameters the graphs share.
        recording: with what varies marked.
        wide: the run with ``sizes[1]`` samples, for shapes.
        cuts: per exit the tensor it shows and the number of calls before it; the last one is the output.
        inputs: how many tensors the first state has.
        sizes: the batch sizes of the two runs.
        replaced: modules to call in place of the model's, by name.
    """
    builder = _Builder(model, recording, wide, sizes, replaced)
    state = [Ref(-1 - i) for i in range(inputs)]
    segments, begin = [], 0
    for index, (shown, end) in enumerate(cuts):
        later = builder.read_later(end, [ref for ref, _ in cuts[index + 1 :]])
        carried = sorted(later & builder.made_before(end), key=lambda ref: (ref.call, str(ref.path)))
        builder.check_apart(carried, end)
        segments.append(builder.segment(state, begin, end, [] if index == len(cuts) - 1 else carried, shown))
        state, begin = carried, end
    return segments


class _Builder:
    def __init__(
        self,
        model: nn.Module,
        recording: Recording,
        wide: Recording,
        sizes: tuple[int, ...],
        replaced: dict[str, nn.Module],
    ) -> None:
        self.model, self.recording, self.wide, self.sizes, self.replaced = model, recording, wide, sizes, replaced
        self.calls = recording.calls
        self.fed = self._fed_by_inputs()

    def _fed_by_inputs(self) -> list[bool]:
        """Which calls depend on the input; what is written to depends on what was written."""
        fed: list[bool] = []
        memory = [_memory(call.out) for call in self.calls]
        for call in self.calls:
            fed.append(any(_is_fed(ref, fed) for ref in _refs((call.args, call.kwargs))))
            if call.writes and fed[-1]:
                written = self.memory_of(call.writes)
                fed[:-1] = [known or bool(held & written) for known, held in zip(fed[:-1], memory, strict=False)]
        return fed

    def memory_of(self, refs: Iterable[Ref]) -> set[int]:
        return {address for ref in refs for address in _memory(tensor_at(self.recording, ref))}

    def written(self, begin: int, end: int | None = None) -> set[int]:
        """The memory that calls write to in place."""
        return self.memory_of(ref for call in self.calls[begin:end] for ref in call.writes)

    def check_apart(self, carried: Sequence[Ref], end: int) -> None:
        """Two tensors that share memory are two tensors after a cut: nothing may write to either."""
        written = self.written(end)
        for one, two in itertools.combinations(carried, 2):
            if self.memory_of([one]) & self.memory_of([two]) & written:
                raise ValueError(
                    f"the network cannot be cut here: {self.name(one)} and {self.name(two)} cross it sharing memory, "
                    "and a later step writes into it in place; name another exit, or write x = x + 1 for x += 1"
                )

    def name(self, ref: Ref) -> str:
        return f"input {-1 - ref.call}" if ref.call < 0 else f"what {self.calls[ref.call].name} gives"

    def made_before(self, end: int) -> set[Ref]:
        """Every tensor that calls before ``end`` gave and that depends on the input."""
        refs = set(_refs([(c.args, c.kwargs) for c in self.calls]))
        return {ref for ref in refs if ref.call < end and _is_fed(ref, self.fed)}

    def read_later(self, end: int, shown: Sequence[Ref]) -> set[Ref]:
        """Every tensor that calls from ``end`` on read, or a later exit shows."""
        return {*_refs([(c.args, c.kwargs) for c in self.calls[end:]]), *shown}

    def segment(self, state: list[Ref], begin: int, end: int, carried: list[Ref], shown: Ref) -> Segment:
        graph, root = torch.fx.Graph(), dict[str, Any]()
        emit = _Emitter(self, graph, root)
        written = self.written(begin, end)
        for i, ref in enumerate(state):
            placeholder = graph.placeholder(f"state_{i}")
            emit.batch_from = emit.batch_from or placeholder
            own = graph.call_method("clone", (placeholder,)) if self.memory_of([ref]) & written else placeholder
            emit.nodes[ref] = emit.unpacked(own, ref)  # a branch writes into a copy: the state is not its own
        for index in self._needed(begin, end, [*carried, shown]):
            emit.call(index)
        graph.output(tuple(emit.packed(emit.ref(ref), ref) for ref in (*carried, shown)))
        graph.eliminate_dead_code(
            is_impure_node=lambda node: node.op in ("placeholder", "output") or node in emit.writing
        )
        graph.lint()
        return Segment(root, graph, "Segment")

    def _needed(self, begin: int, end: int, results: Sequence[Ref]) -> list[int]:
        """The calls of a segment: its own, and earlier ones that do not depend on the input but are read here."""
        again: set[int] = set()
        pending = [*results, *_refs([(c.args, c.kwargs) for c in self.calls[begin:end]])]
        while pending:
            ref = pending.pop()
            if 0 <= ref.call < begin and not self.fed[ref.call] and ref.call not in again:
                again.add(ref.call)
                pending += _refs((self.calls[ref.call].args, self.calls[ref.call].kwargs))
        return [*sorted(again), *range(begin, end)]

    def rows(self, ref: Ref) -> tuple[int, int]:
        """Where a carried tensor has its samples, and how many rows for each."""
        if ref.call < 0:
            return 0, 1
        narrow, wide = tensor_at(self.recording, ref), tensor_at(self.wide, ref)
        try:
            found = batch_dimension(narrow, wide, self.sizes)
        except ValueError as error:
            raise ValueError(
                f"the network cannot be cut here: {self.calls[ref.call].name} gives what crosses it; {error}"
            ) from None
        if found is None:
            raise ValueError(
                f"the network cannot be cut here: {self.calls[ref.call].name} gives a tensor of shape "
                f"{tuple(narrow.shape)} that depends on the input and has no row per sample; name another exit"
            )
        return found


class _Emitter:
    """Writes calls into a graph."""

    def __init__(self, builder: _Builder, graph: torch.fx.Graph, root: dict[str, Any]) -> None:
        self.builder, self.graph, self.root = builder, graph, root
        self.nodes: dict[Ref, torch.fx.Node] = {}
        self.batch_from: torch.fx.Node | None = None
        self.batch: torch.fx.Node | None = None
        self.writing: set[torch.fx.Node] = set()

    def call(self, index: int) -> None:
        call = self.builder.calls[index]
        args, kwargs = self.value(call.args), self.value(call.kwargs)
        if isinstance(call.target, str):
            self.root[call.target] = self.builder.replaced.get(call.target) or self.builder.model.get_submodule(
                call.target
            )
            node = self.graph.call_module(call.target, args, kwargs)
        else:
            node = self._function(call.target, args, kwargs)
        if call.in_place:
            self.writing.add(node)
        if call.detached and isinstance(call.out, Tensor) and call.out.is_floating_point():
            node = self.graph.call_method("detach", (node,))
        self.nodes[Ref(index)] = node

    def _function(self, func: Any, args: Any, kwargs: Any) -> torch.fx.Node:
        name = getattr(func, "__name__", "")
        if name == "__get__":
            return self.graph.call_function(getattr, (args[0], func.__self__.__name__))
        if name in ("__getitem__", "__setitem__"):
            return self.graph.call_function(getattr(operator, name.strip("_")), args, kwargs)
        if getattr(torch.Tensor, name, None) is func or getattr(torch._C.TensorBase, name, None) is func:
            return self.graph.call_method(name, args, kwargs)
        return self.graph.call_function(func, args, kwargs)

    def ref(self, ref: Ref) -> torch.fx.Node:
        if ref not in self.nodes:
            node = self.nodes[Ref(ref.call)]
            for key in ref.path:
                field = isinstance(key, str) and key.startswith(".")
                arguments = (node, key[1:]) if field else (node, key)
                node = self.graph.call_function(getattr if field else operator.getitem, arguments)
            self.nodes[ref] = node
        return self.nodes[ref]

    def value(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return self.ref(value)
        if isinstance(value, Attr):
            return self._attribute(value)
        if isinstance(value, Varying):
            return self._varying(value)
        if isinstance(value, tuple | list):
            items = [self.value(item) for item in value]
            if hasattr(value, "_fields"):
                return self.graph.call_function(type(value), tuple(items))
            return like(value, items)
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self.value(value.start), self.value(value.stop), self.value(value.step))
        if isinstance(
            value, str | int | float | complex | torch.dtype | torch.device | torch.memory_format | torch.layout
        ):
            return value
        return value if value is None or value is Ellipsis else self._stored(value)

    def _attribute(self, attribute: Attr) -> torch.fx.Node:
        name = attribute.name
        if not name:
            return self._stored(attribute.value)
        self.root[name] = attribute.value
        return self.graph.get_attr(name)

    def _stored(self, value: Any) -> torch.fx.Node:
        name = next((n for n, v in self.root.items() if v is value), f"constant_{len(self.root)}")
        self.root[name] = value
        return self.graph.create_node("get_attr", name)

    def _varying(self, varying: Varying) -> torch.fx.Node:
        if varying.by_mode:
            name = f"by_mode_{len(self.root)}"
            self.root[name] = ByMode(varying.train, varying.eval)
            return self.graph.call_module(name)
        if self.batch is None:
            self.batch = self.graph.call_method("size", (self.batch_from, 0))
        product = self.batch if varying.a == 1 else self.graph.call_function(operator.mul, (self.batch, varying.a))
        return self.graph.call_function(operator.add, (product, varying.b)) if varying.b else product

    def packed(self, node: torch.fx.Node, ref: Ref) -> torch.fx.Node:
        """Samples first, one row each."""
        dim, each = self.builder.rows(ref)
        if each > 1:
            return self.graph.call_method("unflatten", (node, 0, (-1, each)))
        return self.graph.call_method("movedim", (node, dim, 0)) if dim else node

    def unpacked(self, node: torch.fx.Node, ref: Ref) -> torch.fx.Node:
        """As the network had it."""
        dim, each = self.builder.rows(ref)
        if each > 1:
            return self.graph.call_method("flatten", (node, 0, 1))
        return self.graph.call_method("movedim", (node, 0, dim)) if dim else node


def _refs(value: Any) -> Any:
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, Attr | Varying):
        return
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _refs(item)
    elif isinstance(value, dict):
        yield from _refs(list(value.values()))
    elif isinstance(value, slice):
        yield from _refs([value.start, value.stop, value.step])


def _is_fed(ref: Ref, fed: Sequence[bool]) -> bool:
    return ref.call < 0 or fed[ref.call]


def _memory(value: Any) -> set[int]:
    """Which memory tensors lie in: views share it."""
    return {tensor.untyped_storage()._cdata for _, tensor in tensors_in(value)}
