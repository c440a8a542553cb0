"""What a table of logits says of the search so far, and what to warn of.

METHOD: the supernet. Free operations draw the penalty to them, so their share is watched; logits that never moved mean
that the search chose by chance.

Shapes: ``T`` tables, ``J`` edges, ``O`` operations.

This file does not know how logits are learnt.
"""

from typing import NamedTuple

from torch import Tensor

from quorate.nets.genotype import Genotype
from quorate.quest.concrete import entropy
from quorate.quest.decode import decode
from quorate.quest.penalty import expected_macs

__all__ = ["FREE", "Diagnosis", "diagnose", "dominating", "free_share", "warnings_for"]

FREE = ("max_pool_3x3", "avg_pool_3x3", "skip_connect")
COLLAPSED, UNMOVED = 0.5, 0.2


class Diagnosis(NamedTuple):
    """What a table says.

    Attributes:
        entropy: mean over edges, in nats; ``ln 8 = 2.08`` when nothing is known.
        expected_macs: of the mixed cells, mean over hard architectures.
        free_share: of the edges the genotype keeps, those without parameters.
        largest: largest probability of an edge, mean over edges; 0.125 when nothing is known.
    """

    entropy: float
    expected_macs: float
    free_share: float
    largest: float


def diagnose(logits: Tensor, table_TJO: Tensor) -> Diagnosis:
    """Look at a table.

    Example:
        >>> import torch
        >>> from quorate.quest.penalty import cost_table
        >>> diagnose(torch.zeros(2, 14, 8), cost_table(16, 8, 32)).largest
        0.125
    """
    logits = logits.detach().double().cpu()
    q = logits.softmax(-1)
    return Diagnosis(
        float(entropy(logits).mean()),
        float(expected_macs(q, table_TJO.cpu())),
        free_share(decode(q)),
        float(q.max(-1).values.mean()),
    )


def free_share(genotype: Genotype) -> float:
    """Share of the kept edges without parameters: pools, and skips of stride 1.

    Example:
        >>> from quorate.nets import DARTS_V2
        >>> free_share(DARTS_V2)
        0.625
    """
    free = [name in FREE for name, _ in genotype.normal]
    # A skip of a reduction cell that leaves an input is a factorized reduce, and has weights.
    free += [name in FREE and not (name == "skip_connect" and source < 2) for name, source in genotype.reduce]
    return sum(free) / len(free)


def warnings_for(logits: Tensor) -> list[str]:
    """What should worry whoever runs a search, at its end.

    Args:
        logits: of the posterior.

    Example:
        >>> import torch
        >>> warnings_for(torch.zeros(2, 14, 8))
        ['the logits barely moved: the largest probability of an edge is 0.125 on average, 0.125 being chance; ...]
    """
    q = logits.detach().double().softmax(-1)
    said, share, largest = [], free_share(decode(q)), float(q.max(-1).values.mean())
    if largest < UNMOVED:
        said.append(
            f"the logits barely moved: the largest probability of an edge is {largest:.3f} on average, "
            f"{1 / q.shape[-1]:.3f} being chance; the search chose nearly at random. Give it more epochs or "
            "posterior_epochs, or a larger logit_rate or posterior_rate"
        )
    if share > COLLAPSED:
        said.append(
            f"{100 * share:.0f} % of the kept edges are pools or skips without weights: the search collapses to what "
            "is free. Lower cost_weight, or give the weights more epochs before the logits learn (warmup)"
        )
    return said


def dominating(cost_loss: float, data_loss: float) -> str | None:
    """What to say of a penalty that dominates the loss, at the first step; None where it does not.

    Args:
        cost_loss: weighted penalty.
        data_loss: joint loss.

    Example:
        >>> dominating(9.0, 7.0)
        'the penalty dominates the loss at the first step (9.00 against 7.00): the search will look at costs alone. ...
        >>> dominating(0.2, 7.0)
    """
    if abs(cost_loss) <= data_loss:
        return None
    return (
        f"the penalty dominates the loss at the first step ({cost_loss:.2f} against {data_loss:.2f}): the search will "
        "look at costs alone. Lower cost_weight"
    )
