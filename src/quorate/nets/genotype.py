"""Genotypes: a discrete architecture of the DARTS space, its notations, and random ones (paper, section 2, "DARTS").

A cell has two inputs (0 and 1) and four nodes (2 to 5). Each node sums two edges; an edge is an operation and the
number of the node it reads. A genotype holds two cells, one that keeps the resolution and one that halves it.

A genotype keeps the order in which it was written, because original weights are numbered by it; equality and hash use
the canonical form, in which each node's two edges are sorted.

This file does not know torch, networks or weights: a genotype can be read, compared and drawn without them.
"""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np

from quorate.errors import QuorateError

__all__ = ["NODES", "PRIMITIVES", "SCHEMA", "Cell", "Edge", "Genotype", "random_genotype"]

PRIMITIVES = (
    "none",
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
"""The eight operations, in the order in which every table of edge weights lists them."""

NODES = 4
"""Nodes of a cell."""

SCHEMA = 1
"""Version of the JSON form. A file of a later version is refused."""

Edge: TypeAlias = tuple[str, int]
Cell: TypeAlias = tuple[Edge, ...]


@dataclass(frozen=True, eq=False)
class Genotype:
    """Two cells, each eight edges ``(operation, input)``, two per node, in the order they were written.

    Args:
        normal: the cell that keeps the resolution.
        reduce: the cell that halves it.

    Raises:
        ValueError: if a cell does not have eight edges, an operation is unknown or ``none``, or an edge reads a node
            that does not come before its own.

    Note:
        **[ours]** Both edges of a node may read the same input (sampled particles can decode to it); ``none`` is not
        an operation one can keep, so a genotype that names it is refused.

    Example:
        >>> from quorate.nets import DARTS_V1, Genotype
        >>> text = str(DARTS_V1)
        >>> text[:60]
        "Genotype(normal=[('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ("
        >>> Genotype.from_text(text) == DARTS_V1
        True
        >>> DARTS_V1.canonical().normal[0]
        ('sep_conv_3x3', 0)
    """

    normal: Cell
    reduce: Cell

    def __post_init__(self) -> None:
        for name in ("normal", "reduce"):
            object.__setattr__(self, name, _checked_cell(name, getattr(self, name)))

    def canonical(self) -> "Genotype":
        """The same architecture, with each node's edges sorted by input, then by operation.

        Example:
            >>> from quorate.nets import DARTS_V2
            >>> DARTS_V2.canonical().normal[4:6]
            (('skip_connect', 0), ('sep_conv_3x3', 1))
        """
        return Genotype(_canonical(self.normal), _canonical(self.reduce))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Genotype):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Cell, Cell]:
        return _canonical(self.normal), _canonical(self.reduce)

    def __str__(self) -> str:
        concat = list(range(2, 2 + NODES))
        return (
            f"Genotype(normal={list(self.normal)!r}, normal_concat={concat}, "
            f"reduce={list(self.reduce)!r}, reduce_concat={concat})"
        )

    def to_json(self) -> str:
        """The genotype as JSON, with the version of its schema.

        Example:
            >>> from quorate.nets import DARTS_V2, Genotype
            >>> Genotype.from_json(DARTS_V2.to_json()) == DARTS_V2
            True
        """
        record = {"schema": SCHEMA, "normal": self.normal, "reduce": self.reduce}
        return json.dumps(record, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Genotype":
        """Read what :meth:`to_json` wrote.

        Raises:
            QuorateError: if the text is not such a record, or one of a later version.
            ValueError: if the cells in it are not an architecture.

        Example:
            >>> from quorate.nets import DARTS_V2, Genotype
            >>> Genotype.from_json(DARTS_V2.to_json()).reduce[0]
            ('max_pool_3x3', 0)
        """
        try:
            record = json.loads(text)
        except TypeError:
            raise TypeError(f"the JSON of a genotype must be text, got {type(text).__name__}") from None
        except (ValueError, RecursionError) as error:
            raise QuorateError(f"a genotype must be JSON, got text that is not: {error}") from None
        if not isinstance(record, dict) or not {"schema", "normal", "reduce"} <= record.keys():
            raise QuorateError("the JSON of a genotype must be an object with 'schema', 'normal' and 'reduce'")
        schema = record["schema"]
        if type(schema) is not int or schema != SCHEMA:
            later = type(schema) is int and schema > SCHEMA
            hint = (
                "read it with the version of quorate that wrote it, or a later one"
                if later
                else "no version wrote that"
            )
            raise QuorateError(f"the genotype's schema must be {SCHEMA}, got {schema!r}; {hint}")
        return cls(record["normal"], record["reduce"])

    @classmethod
    def from_text(cls, text: str) -> "Genotype":
        """Read the classic notation ``Genotype(normal=[('sep_conv_3x3', 0), ...], normal_concat=..., reduce=...)``.

        The text is parsed, never evaluated. ``normal_concat`` and ``reduce_concat`` may be left out; where they are
        given they must name the four nodes in order, as a list or a range: another order would permute channels.

        Raises:
            ValueError: if the text is not that notation, or not an architecture.

        Example:
            >>> from quorate.nets import DARTS_V2, Genotype
            >>> Genotype.from_text(str(DARTS_V2)) == DARTS_V2
            True
        """
        fields = _fields_of_call(text)
        for name in ("normal_concat", "reduce_concat"):
            given = fields.pop(name, list(range(2, 2 + NODES)))
            if not isinstance(given, list | tuple) or list(given) != list(range(2, 2 + NODES)):
                raise ValueError(f"{name} must name the four nodes 2, 3, 4, 5 in that order, got {given!r}")
        if fields.keys() != {"normal", "reduce"}:
            raise ValueError(f"a genotype must have the fields normal and reduce, got {sorted(fields) or 'none'}")
        return cls(fields["normal"], fields["reduce"])


def random_genotype(generator: np.random.Generator) -> Genotype:
    """Draw a genotype uniformly: per node two different inputs, on each any operation but ``none``.

    Args:
        generator: the source of randomness.

    Example:
        >>> import numpy as np
        >>> from quorate.nets import random_genotype
        >>> random_genotype(np.random.default_rng(3)) == random_genotype(np.random.default_rng(3))
        True
    """
    if not isinstance(generator, np.random.Generator):
        raise TypeError(f"generator must be a numpy Generator, such as numpy.random.default_rng(0), got {generator!r}")

    def cell() -> Cell:
        edges: list[Edge] = []
        for node in range(2, 2 + NODES):
            sources = sorted(generator.choice(node, size=2, replace=False).tolist())
            edges += [(PRIMITIVES[int(generator.integers(1, len(PRIMITIVES)))], source) for source in sources]
        return tuple(edges)

    return Genotype(cell(), cell())


def _canonical(cell: Cell) -> Cell:
    pairs = [sorted(cell[i : i + 2], key=lambda edge: (edge[1], edge[0])) for i in range(0, 2 * NODES, 2)]
    return tuple(edge for pair in pairs for edge in pair)


def _checked_cell(name: str, edges: Any) -> Cell:
    edges = _flattened(edges) if isinstance(edges, Sequence) and not isinstance(edges, str) else edges
    if not isinstance(edges, list) or len(edges) != 2 * NODES:
        count = len(edges) if isinstance(edges, list) else repr(edges)
        raise ValueError(f"the {name} cell must be a sequence of {2 * NODES} edges, two per node, got {count}")
    return tuple(_checked_edge(name, position, edge) for position, edge in enumerate(edges))


def _flattened(edges: Sequence[Any]) -> list[Any]:
    """Accept edges in pairs, one pair per node, as some authors write them."""
    paired = len(edges) == NODES and all(isinstance(p, Sequence) and len(p) == 2 for p in edges)
    if paired and all(isinstance(edge, Sequence) and not isinstance(edge, str) for pair in edges for edge in pair):
        return [edge for pair in edges for edge in pair]
    return list(edges)


def _checked_edge(name: str, position: int, edge: Any) -> Edge:
    node = position // 2 + 2
    where = f"edge {position} of the {name} cell"
    if not isinstance(edge, Sequence) or isinstance(edge, str) or len(edge) != 2:
        raise ValueError(f"{where} must be a pair (operation, input), got {edge!r}")
    operation, source = edge
    if operation == "none":
        raise ValueError(f"{where} must be an operation that is kept, got 'none'; leave it to the table of weights")
    if operation not in PRIMITIVES:
        raise ValueError(f"{where} must be one of {', '.join(PRIMITIVES[1:])}, got {operation!r}")
    if isinstance(source, bool) or not isinstance(source, int) or not 0 <= source < node:
        raise ValueError(f"{where} leads to node {node} and must read one of 0 to {node - 1}, got {source!r}")
    return operation, source


def _fields_of_call(text: str) -> dict[str, Any]:
    """The keyword arguments of the one call in ``text``, as literals."""
    if not isinstance(text, str):
        raise TypeError(f"the notation of a genotype must be text, got {type(text).__name__}")
    try:
        tree = ast.parse(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"a genotype must read Genotype(normal=[...], reduce=[...]), got text that {error}") from None
    body = tree.body[0] if len(tree.body) == 1 else None
    call = body.value if isinstance(body, ast.Expr | ast.Assign) else None
    if not _is_genotype(call) or call.args or any(keyword.arg is None for keyword in call.keywords):
        raise ValueError(f"a genotype must read Genotype(normal=[...], reduce=[...]), got {text.strip()[:60]!r}")
    fields: dict[str, Any] = {}
    for keyword in call.keywords:
        fields[str(keyword.arg)] = _literal(str(keyword.arg), keyword.value)
    return fields


def _is_genotype(node: ast.AST | None) -> TypeGuard[ast.Call]:
    """A call of ``Genotype``, or of ``genotypes.Genotype`` for short imports."""
    if not isinstance(node, ast.Call):
        return False
    callee = node.func
    return "Genotype" in (getattr(callee, "id", ""), getattr(callee, "attr", ""))


def _literal(name: str, node: ast.expr) -> Any:
    """A literal, or ``range`` and ``list(range(...))`` of literals, which authors write for the concatenation."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 0 and not node.keywords:
        values = [_literal(name, argument) for argument in node.args]
        if node.func.id == "range" and len(values) <= 3 and all(type(v) is int and abs(v) < 100 for v in values):
            return list(range(*values))
        if node.func.id == "list" and len(values) == 1 and isinstance(values[0], Sequence | Mapping):
            return list(values[0])
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise ValueError(
            f"{name} must be written with literals, a list of pairs ('sep_conv_3x3', 0), got {type(node).__name__} "
            f"at column {node.col_offset}"
        ) from None
