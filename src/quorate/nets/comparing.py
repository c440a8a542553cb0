"""Compare recordings of one network: what changes with the batch, and with the mode.

This file does not know how to run anything: :mod:`quorate.nets.tracing` does.
"""

from dataclasses import replace
from typing import Any

from torch import Tensor

from quorate.nets.recording import Attr, Call, Recording, Ref, Varying, like

__all__ = ["batch_dimension", "merged"]


def merged(small: Recording, large: Recording, other: Recording, train: Recording, sizes: tuple[int, ...]) -> Recording:
    """The first recording with what varies marked as :class:`~quorate.nets.recording.Varying`.

    Args:
        small: in evaluation, with ``sizes[0]`` samples.
        large: the same with ``sizes[1]``.
        other: the same with ``sizes[2]``; checks the rule found from the two.
        train: in training, with ``sizes[0]``.
        sizes: numbers of samples.

    Raises:
        ValueError: if runs differ in another way; the message names the call.
    """
    for run, what in ((large, "with the batch size"), (other, "with the batch size"), (train, "in training")):
        _check_same_calls(small, run, what)
    calls = []
    for a, b, c, t in zip(small.calls, large.calls, other.calls, train.calls, strict=True):
        args = _merge((a.args, b.args, c.args, t.args), sizes, a)
        kwargs = _merge((a.kwargs, b.kwargs, c.kwargs, t.kwargs), sizes, a)
        calls.append(
            Call(a.target, args, kwargs, a.out, a.where, a.detached, a.writes | t.writes, a.in_place or t.in_place)
        )
    return replace(small, calls=calls)


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


def _merge(runs: tuple[Any, Any, Any, Any], sizes: tuple[int, ...], call: Call) -> Any:
    """One argument of the four runs, with what varies marked."""
    first = runs[0]
    if isinstance(first, Ref | Attr):
        return first if all(_same_tensor(first, other) for other in runs) else _refuse(call, "reads different tensors")
    if all(type(run) is type(first) for run in runs):
        if isinstance(first, tuple | list) and len({len(run) for run in runs}) == 1:
            items = [_merge(items, sizes, call) for items in zip(*runs, strict=True)]
            return like(first, items)
        if isinstance(first, dict) and all(run.keys() == first.keys() for run in runs):
            a, b, c, t = runs
            return {key: _merge((a[key], b[key], c[key], t[key]), sizes, call) for key in first}
        if isinstance(first, slice):
            a, b, c, t = ((run.start, run.stop, run.step) for run in runs)
            return slice(*(_merge(ends, sizes, call) for ends in zip(a, b, c, t, strict=True)))
    return _merge_constants(runs, sizes, call)


def _merge_constants(runs: tuple[Any, Any, Any, Any], sizes: tuple[int, ...], call: Call) -> Any:
    a, b, c, t = runs
    if _equal(a, b) and _equal(a, c):
        return a if _equal(a, t) else Varying(train=t, eval=a, by_mode=True)
    if all(type(run) is int for run in runs) and a == t:
        slope, rest = divmod(b - a, sizes[1] - sizes[0])
        start = a - slope * sizes[0]
        if not rest and c == slope * sizes[2] + start:
            return Varying(a=slope, b=start)
    return _refuse(call, f"has a constant that changes with the batch size: {a!r}, {b!r}")


def _same_tensor(a: Ref | Attr, b: Any) -> bool:
    if isinstance(a, Ref) or not isinstance(b, Attr):
        return type(a) is type(b) and bool(a == b)
    return a.value is b.value or (bool(a.name) and a.name == b.name)


def _equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))


def _refuse(call: Call, why: str) -> Any:
    raise ValueError(
        f"the network cannot be cut: {call.name} {why}; keep it inside one stage, and pass the stages yourself: "
        "attach_exits([stage, ...], ...)"
    )
