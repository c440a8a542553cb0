"""From tables of weights to genotypes: which two edges a node keeps, and what to do about duplicates.

METHOD: SVGD-RD, decoding. Per edge the best operation other than ``none``; per node the two edges whose best operation
weighs most.

Shapes: ``T`` tables (2), ``J`` edges (14), ``O`` operations (8).

This file does not know where tables come from, nor how good a genotype is.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, product

import torch
from torch import Tensor

from quorate.nets.genotype import NODES, PRIMITIVES, Cell, Genotype
from quorate.quest.concrete import gumbel, hard_choice
from quorate.quest.mixing import edges_of_node
from quorate.quest.supernet import Choice

__all__ = [
    "cell_disagreement",
    "choice_of",
    "decode",
    "decode_choice",
    "decode_particle",
    "distinct",
    "log_weight",
    "neighbours",
    "sampler",
]

NONE = PRIMITIVES.index("none")


def decode(weights_TJO: Tensor) -> Genotype:
    """The genotype of a table: the strongest operation of an edge, the two strongest edges of a node.

    Ties go to the earlier operation and the earlier input.

    Example:
        >>> table = torch.zeros(2, 14, 8)
        >>> table[:, :, 4] = 1 + torch.arange(14.0)
        >>> decode(table).normal[:4]
        (('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 1), ('sep_conv_3x3', 2))
    """
    strength_TJ, best_TJ = weights_TJO[..., 1:].max(dim=-1)
    cells: list[Cell] = []
    for strengths, best in zip(strength_TJ.tolist(), (best_TJ + 1).tolist(), strict=True):
        edges: list[tuple[str, int]] = []
        for node in range(2, 2 + NODES):
            rows = edges_of_node(node)
            kept = sorted(rows, key=lambda row: -strengths[row])[:2]  # sorting is stable: ties to the earlier input
            edges += [(PRIMITIVES[best[row]], row - rows[0]) for row in sorted(kept)]
        cells.append(tuple(edges))
    return Genotype(*cells)


def decode_particle(particle: Tensor, logits: Tensor, otherwise: Tensor | None = None) -> Genotype:
    """The genotype of a particle: edges are ranked by posterior probability times particle weight.

    Args:
        particle: ``[d]`` or ``[T, J, O]``; weights below 0 count as 0.
        logits: of the posterior.
        otherwise: ``[T, J, O]``, whose best operation an edge takes where the particle weighs nothing but ``none``; by
            default the posterior.

    Note:
        **[ours]** A settled particle weighs 1 on one operation of every edge, so its own weights would leave all edges
        tied. The operation of an edge is the particle's; how far the edge is believed in is the posterior's too. An
        edge that settled on ``none`` comes last; a node with too few others keeps it all the same, by the posterior's
        best operation: by the first of equal weights it would be a pool each time.

    Example:
        >>> decode_particle(torch.zeros(224), torch.zeros(2, 14, 8)).normal[0]
        ('max_pool_3x3', 0)
    """
    weights_TJO, q_TJO = particle.reshape(logits.shape).clamp_min(0).double(), logits.double().softmax(dim=-1)
    silent_TJ1 = weights_TJO[..., 1:].amax(dim=-1, keepdim=True) == 0
    ranked_TJO = torch.where(silent_TJ1, q_TJO if otherwise is None else otherwise.double(), weights_TJO)
    best_TJ1 = ranked_TJO[..., 1:].argmax(dim=-1, keepdim=True) + 1
    belief_TJ1 = (q_TJO * weights_TJO).gather(-1, best_TJ1)
    # Above every other operation's weight, which must not win the edge by the posterior alone.
    return decode(torch.zeros_like(weights_TJO).scatter_(-1, best_TJ1, belief_TJ1 + 1))


def decode_choice(choice_TJ: Tensor, logits: Tensor, otherwise: Tensor | None = None) -> Genotype:
    """The genotype of one hard sample of every edge: a particle that sits on a corner; arguments as there.

    Example:
        >>> decode_choice(torch.full((2, 14), 4), torch.zeros(2, 14, 8)).reduce[0]
        ('sep_conv_3x3', 0)
    """
    corner = torch.nn.functional.one_hot(choice_TJ, len(PRIMITIVES)).to(logits.dtype)
    return decode_particle(corner, logits, otherwise)


def choice_of(genotype: Genotype) -> Choice:
    """The operation of every edge of the supernet that a genotype means: ``none`` on the edges it leaves out.

    Raises:
        ValueError: if a node reads one input twice: an edge of the supernet holds one operation.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> choice_of(DARTS_V2)[0][:5]
        [4, 4, 4, 4, 0]
    """
    choice = []
    for cell in (genotype.normal, genotype.reduce):
        row = [NONE] * sum(range(2, 2 + NODES))
        for position, (name, source) in enumerate(cell):
            edge = edges_of_node(2 + position // 2)[source]
            if row[edge] != NONE:
                raise ValueError(
                    f"a genotype for the supernet must read each input of a node once, got {cell[position - 1]} and "
                    f"{cell[position]}"
                )
            row[edge] = PRIMITIVES.index(name)
        choice.append(row)
    return choice


def log_weight(genotype: Genotype, logits: Tensor) -> float:
    """``log q`` of the operations that a genotype keeps: how far the posterior believes in it.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> round(log_weight(DARTS_V2, torch.zeros(2, 14, 8)), 3)
        -33.271
    """
    log_q: list[list[list[float]]] = logits.log_softmax(dim=-1).tolist()
    choice = choice_of(genotype)
    return sum(log_q[t][j][k] for t, row in enumerate(choice) for j, k in enumerate(row) if k != NONE)


def neighbours(genotype: Genotype) -> Iterator[Genotype]:
    """Every genotype that differs in one edge: its operation, its input, or both.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> len(set(neighbours(DARTS_V2)))
        264
    """
    for cell, position in product(("normal", "reduce"), range(2 * NODES)):
        edges = list(getattr(genotype, cell))
        taken = edges[position ^ 1][1]
        for name, source in product(PRIMITIVES[1:], range(2 + position // 2)):
            if source != taken and (name, source) != edges[position]:
                changed = (*edges[:position], (name, source), *edges[position + 1 :])
                yield Genotype(**{"normal": genotype.normal, "reduce": genotype.reduce, cell: changed})


def sampler(logits: Tensor, generator: torch.Generator) -> Callable[[], Genotype]:
    """Something that draws genotypes from a posterior.

    An edge that drew ``none`` and is kept takes the best of the others in the same draw, which is a draw from them.

    Example:
        >>> draw = sampler(torch.zeros(2, 14, 8), torch.Generator().manual_seed(0))
        >>> draw() == draw()
        False
    """

    def draw() -> Genotype:
        noise = gumbel(logits, generator)
        return decode_choice(hard_choice(logits, noise), logits, logits + noise)

    return draw


def distinct(
    genotypes: Iterable[Genotype], logits: Tensor, draw: Callable[[], Genotype] | None = None, tries: int = 100
) -> list[Genotype]:
    """The genotypes with duplicates replaced: drawn again, then moved to the best change of one edge by ``log q``.

    Equality is that of canonical forms. With several duplicates left, changes of two edges follow.

    Args:
        genotypes: in order; the first of equals stays.
        logits: of the posterior.
        draw: another one from wherever they came; None to go to the changes of one edge at once.
        tries: how often it is drawn again.

    Raises:
        ValueError: if more are asked for than there are architectures.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> len(set(distinct([DARTS_V2] * 3, torch.zeros(2, 14, 8))))
        3
    """
    kept: list[Genotype] = []
    for genotype in genotypes:
        for _ in range(tries if draw is not None else 0):
            if genotype not in kept:
                break
            assert draw is not None
            genotype = draw()
        kept.append(genotype if genotype not in kept else _nearest(genotype, kept, logits))
    return kept


def _nearest(genotype: Genotype, taken: Sequence[Genotype], logits: Tensor) -> Genotype:
    ring, seen = [genotype], {genotype}
    while ring:
        ring = list(dict.fromkeys(one for centre in ring for one in neighbours(centre) if one not in seen))
        free = [one for one in ring if one not in taken]
        if free:
            return max(free, key=lambda one: log_weight(one, logits))
        seen |= set(ring)
    raise ValueError(f"there are no more than {len(taken)} distinct architectures; ask for fewer learners")


def cell_disagreement(genotypes: Sequence[Genotype]) -> float:
    """Mean share of kept edges in which two genotypes differ, over all pairs.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> cell_disagreement([DARTS_V2, DARTS_V2])
        0.0
    """
    pairs = list(combinations([choice_of(one) for one in genotypes], 2))
    if not pairs:
        return 0.0
    return sum(_differing(a, b) for a, b in pairs) / len(pairs)


def _differing(a: Choice, b: Choice) -> float:
    kept = [{(t, j, k) for t, row in enumerate(x) for j, k in enumerate(row) if k != NONE} for x in (a, b)]
    return len(kept[0] - kept[1]) / max(1, len(kept[0]))
