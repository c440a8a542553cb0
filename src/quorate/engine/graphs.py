"""What graphs of a bundle must be before any is run: whole in themselves, and leading one to the next.

A graph may keep its weights in other files, which runtimes then look for wherever the process stands, and for which no
manifest vouches. The runtimes cannot be asked before they have read them: the few fields that matter are read here.

Shapes: ``E`` exits, ``K`` learners. This file does not know any runtime.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from quorate.errors import QuorateError
from quorate.store.bundle import Bundle
from quorate.store.faults import on_disk

__all__ = ["Kinds", "check_chain", "check_whole", "keeps_data_elsewhere"]

Kinds: TypeAlias = list[tuple[str, list[Any]]]
"""Of each tensor, in order: the type of its numbers, and its sides without the batch."""

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
INSIDE: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "function": {7: "node", 11: "attribute"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Numbers of the fields of an ONNX model in which there are, or may be further inside, tensors."""
ELSEWHERE = {13, 14}  # of a tensor: where its data lie, and that they do not lie in it


def check_chain(bundle: Bundle, k: int, graphs: Sequence[tuple[Kinds, Kinds] | None]) -> None:
    """Every graph of a learner gives what the next one reads, and numbers for all classes at the end.

    Args:
        bundle: what it says of itself.
        k: the learner.
        graphs: by exit what its graph reads and gives, None where it has none.

    Raises:
        QuorateError: one line, with the file that does not fit.
    """
    spec, names = bundle.inputs[k], bundle.names[k]
    before: Kinds | None = None
    for graph, files in zip(graphs, bundle.branches, strict=True):
        if graph is None:
            continue
        reads, gives = graph
        with on_disk(bundle.path / str(files[k])):
            if not gives or gives[-1][1] != [len(bundle.classes)]:
                shape = gives[-1][1] if gives else []
                raise ValueError(f"must give logits of {len(bundle.classes)} classes, gives {shape}: export it again")
            if bundle.chained and before is not None:
                if reads != before:
                    raise ValueError(f"reads {reads}, the branch before it gives {before}: export it again")
            elif spec is not None and [s for _, s in reads] != [image := [spec.channels, spec.height, spec.width]]:
                raise ValueError(f"reads {reads}, the manifest says images of {image}: export it again")
            elif names is not None and len(reads) != len(names):
                raise ValueError(f"reads {len(reads)} tensors, the manifest names {len(names)}: export it again")
        before = gives[:-1]


def check_whole(path: Path, model: bytes) -> None:
    """Refuse a graph that needs files for which no manifest vouches."""
    if keeps_data_elsewhere(model):
        raise QuorateError(
            f"{path}: keeps numbers in another file, for which its bundle does not vouch: export it again"
        )


def keeps_data_elsewhere(model: bytes) -> bool:
    r"""Whether an ONNX model refers to other files for its numbers. Of bytes that are no model a runtime will say so.

    Example:
        >>> keeps_data_elsewhere(b"no model")
        False
        >>> location = b"\x0a\x08location" + b"\x12\x01x"  # of a tensor, in a graph, in a model
        >>> tensor = b"\x6a" + bytes([len(location)]) + location
        >>> keeps_data_elsewhere(bytes([0x3A, len(tensor) + 2, 0x2A, len(tensor)]) + tensor)
        True
    """
    waiting = [("model", 0, len(model))]
    try:
        while waiting:
            kind, start, stop = waiting.pop()
            for number, wire, begin, end in _fields(model, start, stop):
                inside = INSIDE.get(kind, {}).get(number)
                if inside is not None and wire == BYTES:
                    waiting.append((inside, begin, end))
                elif kind == "tensor" and number in ELSEWHERE and model[begin:end] not in (b"", b"\0"):
                    return True
    except (IndexError, ValueError):  # cut off, or nothing that was ever a message
        return False
    return False


def _fields(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, begin and end of each field of a message of protocol buffers."""
    while at < stop:
        key, at = _varint(data, at)
        wire, begin = key & 7, at
        if wire == VARINT:
            _, at = _varint(data, at)
        elif wire == BYTES:
            length, begin = _varint(data, at)
            at = begin + length
        elif wire in (FIXED64, FIXED32):
            at += 8 if wire == FIXED64 else 4
        elif wire not in (GROUP, GROUP_END):  # what is in a group is looked at as if it were in the message
            raise ValueError("no such type")
        if at > stop:
            raise ValueError("cut off")
        yield key >> 3, wire, begin, at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("no number is that long")
