"""What mixed architectures cost, in closed form, and the penalty that presses on it (paper, Eq. 11).

Shapes: ``T`` tables (2), ``J`` edges (14), ``O`` operations (8).

This file does not know networks or losses; the MACs of one operation are those of :mod:`quorate.nets.pricing`.
"""

from typing import Literal

import torch
from torch import Tensor

from quorate.nets.genotype import NODES, PRIMITIVES
from quorate.nets.pricing import operation_macs, reductions_of

__all__ = ["cost_table", "expected_macs", "penalty", "reference_macs"]


def cost_table(channels: int, cells: int, side: int) -> Tensor:
    """``MACs[t, j, k]``: of operation ``k`` on edge ``j``, summed over all cells of type ``t``.

    Cells of one type share their table, so the sum over cells of Eq. 11 is taken once.

    Args:
        channels: ``C``, of the first cells.
        cells: ``L``.
        side: of the images.

    Returns:
        ``[T, J, O]`` float64.

    Example:
        >>> table = cost_table(channels=16, cells=8, side=32)
        >>> table.shape, int(table[0, 0, 4]), int(table[1, 0, 3])
        (torch.Size([2, 14, 8]), 4177920, 524288)
    """
    edges = [source for node in range(2, 2 + NODES) for source in range(node)]
    table_TJO = torch.zeros(2, len(edges), len(PRIMITIVES), dtype=torch.float64)
    for index in range(cells):
        reduction = index in reductions_of(cells)
        channels *= 2 if reduction else 1
        after = side // 2 if reduction else side
        for j, source in enumerate(edges):
            stride, reads = (2, side) if reduction and source < 2 else (1, after)
            for k, name in enumerate(PRIMITIVES):
                table_TJO[int(reduction), j, k] += operation_macs(name, channels, stride, reads)
        side = after
    return table_TJO


def expected_macs(probabilities_TJO: Tensor, table_TJO: Tensor) -> Tensor:
    """``sum over i, j, k of MACs[i, j][k] * x[i, j][k]`` (Eq. 11), of all cells, in MACs.

    ``x`` may be a sample, or the probabilities: then it is the mean over hard architectures, exactly.

    Example:
        >>> table = cost_table(16, 8, 32)
        >>> int(expected_macs(torch.full((2, 14, 8), 1 / 8), table))
        34973696
    """
    return (probabilities_TJO * table_TJO.to(probabilities_TJO.dtype)).sum()


def reference_macs(table_TJO: Tensor) -> float:
    """Expected MACs of the uniform table: what the relative form compares with.

    Example:
        >>> int(reference_macs(cost_table(16, 8, 32)))
        34973696
    """
    return float(table_TJO.mean(dim=-1).sum())


def penalty(
    probabilities_TJO: Tensor, table_TJO: Tensor, reference: float, form: Literal["relative", "linear"] = "relative"
) -> Tensor:
    """``L_C`` (Eq. 11): the expected MACs in millions (``linear``), or over the reference, minus one (``relative``).

    Args:
        probabilities_TJO: of the operations, or a sample of them.
        table_TJO: of :func:`cost_table`.
        reference: of :func:`reference_macs`.
        form: of the penalty.

    Note:
        **[ours]** The paper gives no unit: in MACs, with its weight of 1e-3, the penalty would be thousands of times
        the loss. In millions, with that weight, it hardly presses. The relative form carries over between sizes.

    Example:
        >>> table = cost_table(16, 8, 32)
        >>> uniform = torch.full((2, 14, 8), 1 / 8)
        >>> penalty(uniform, table, reference_macs(table)).item(), round(penalty(uniform, table, 1, "linear").item(), 4)
        (0.0, 34.9737)
    """
    macs = expected_macs(probabilities_TJO, table_TJO)
    return macs / 1e6 if form == "linear" else macs / reference - 1
