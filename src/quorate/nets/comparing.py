"""Compare recordings of one network: what changes with the batch, and with the mode.

This file does not run anything: :mod:`quorate.nets.tracing` does.
"""

from typing import Any

from torch import Tensor

from quorate.nets.tracing import Attr, Call, Recording, Ref, Varying

__all__ = ["batch_dimension", "merged"]


def merged(small: Recording, large: Recording, other: Recording, train: Recording, sizes: tuple[int, ...]) -> Recording:
    """The first recording with what varies marked as :class:`~quorate.nets.tracing.Varying`.

    Args:
        small: in evaluation, with ``sizes[0]`` samples.
        large: the same with ``sizes[1]``.
        other: the same with ``sizes[2]``; checks the rule found from the two.
        train: in training, with ``sizes[0]``.

    Raises:
        ValueError: if runs differ in another way; the message names the call.
    """
    for run, what in ((large, "with the batch size"), (other, "with the batch size"), (train, "in training")):
        _check_same_calls(small, run, what)
    calls = []
    for a, b, c, t in zip(small.calls, large.calls, other.calls, train.calls, strict=True):
        marked = [
            _merge(getattr(a, field), getattr(b, field), getattr(c, field), getattr(t, field), sizes, a)
            for field in ("args", "kwargs")
        ]
        calls.append(Call(a.target, marked[0], marked[1], a.out, a.where, a.detached))
    return Recording(calls, small.exits, small.output, small.output_shape)


def batch_dimension(shape: Tensor, other: Tensor, sizes: tuple[int, ...]) -> tuple[int, int] | None:
    """Which dimension holds the samples, and how many rows each has; None if the shapes do not depend on the batch.

    Raises:
        ValueError: if more than one dimension depends on it, or not in proportion.
    """
    dims = [d for d, (a, b) in enumerate(zip(shape.shape, other.shape, strict=True)) if a != b]
    if not dims:
        return None
    d = dims[0]
    each, rest = divmod(shape.shape[d], sizes[0])
    if len(dims) > 1 or rest or other.shape[d] != each * sizes[1] or (each > 1 and d):
        raise ValueError(f"a tensor of shape {tuple(shape.shape)} for {sizes[0]} samples has no row for each of them")
    return d, each


def _check_same_calls(one: Recording, two: Recording, what: str) -> None:
    for a, b in zip(one.calls, two.calls, strict=False):
        if a.target != b.target:
            raise ValueError(
                f"the network cannot be cut: its forward pass changes {what}: {a.name} here, {b.name} there; "
                "keep that inside one stage, and pass the stages yourself: attach_exits([stage, ...], ...)"
            )
    if len(one.calls) != len(two.calls) or one.exits != two.exits or one.output != two.output:
        longer = max(one.calls, two.calls, key=len)
        extra = longer[min(len(one.calls), len(two.calls))].name if len(one.calls) != len(two.calls) else "the output"
        raise ValueError(f"the network cannot be cut: its forward pass changes {what}, at {extra}")


def _merge(a: Any, b: Any, c: Any, t: Any, sizes: tuple[int, ...], call: Call) -> Any:
    if isinstance(a, Ref) or isinstance(a, Attr):
        same = all(isinstance(v, type(a)) and (v == a if isinstance(a, Ref) else _same_attr(a, v)) for v in (b, c, t))
        return a if same else _refuse(call, "reads different tensors")
    if isinstance(a, tuple | list) and all(type(v) is type(a) and len(v) == len(a) for v in (b, c, t)):
        items = [_merge(*values, sizes, call) for values in zip(a, b, c, t, strict=True)]
        return items if isinstance(a, list) else tuple(items)
    if isinstance(a, dict) and all(isinstance(v, dict) and v.keys() == a.keys() for v in (b, c, t)):
        return {key: _merge(a[key], b[key], c[key], t[key], sizes, call) for key in a}
    if isinstance(a, slice) and all(isinstance(v, slice) for v in (b, c, t)):
        ends = [_merge(*(getattr(v, e) for v in (a, b, c, t)), sizes, call) for e in ("start", "stop", "step")]
        return slice(*ends)
    return _merge_constants(a, b, c, t, sizes, call)


def _merge_constants(a: Any, b: Any, c: Any, t: Any, sizes: tuple[int, ...], call: Call) -> Any:
    if _equal(a, b) and _equal(a, c):
        return a if _equal(a, t) else Varying(train=t, eval=a, by_mode=True)
    if all(type(v) is int for v in (a, b, c, t)) and a == t:
        slope, rest = divmod(b - a, sizes[1] - sizes[0])
        start = a - slope * sizes[0]
        if not rest and c == slope * sizes[2] + start:
            return Varying(a=slope, b=start)
    return _refuse(call, f"has a constant that changes with the batch size: {a!r}, {b!r}")


def _same_attr(a: Attr, b: Any) -> bool:
    return a.value is b.value or (bool(a.name) and a.name == b.name)


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))


def _refuse(call: Call, why: str) -> Any:
    raise ValueError(
        f"the network cannot be cut: {call.name} {why}; keep it inside one stage, and pass the stages yourself: "
        "attach_exits([stage, ...], ...)"
    )
