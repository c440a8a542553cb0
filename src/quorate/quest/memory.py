"""How much memory a step of the supernet needs, counted before it is run.

A forward pass on a few images of the smallest side that works tells every map that is kept for the backward pass;
maps grow with the number of pixels.

Shapes: ``B`` images of a step.

This file does not know how a step is made.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from quorate.nets.genotype import PRIMITIVES
from quorate.quest.config import SearchConfig
from quorate.quest.mixing import MixedCell
from quorate.quest.supernet import TABLE, Supernet

__all__ = ["activation_bytes", "step_bytes"]

IMAGES = 3  # no number of channels of a kernel, so that maps can be told from weights
HEAVIEST = PRIMITIVES.index("sep_conv_5x5")
SLACK = 1.15
"""Maps of the backward pass and of the allocator, beside those that are kept."""


def activation_bytes(supernet: Supernet, side: int, image_channels: int, choice: bool = False) -> int:
    """Bytes kept for the backward pass, for one image, in float32.

    Args:
        supernet: any; one of its shape is asked, with numbers of its own.
        side: of the images.
        image_channels: of the images.
        choice: whether one operation is evaluated on each edge (the heaviest), or all are.

    Example:
        >>> activation_bytes(Supernet(4, 3), 8, 3) > 2 * activation_bytes(Supernet(4, 3), 8, 3, choice=True)
        True
    """
    small = next(one for one in range(4, side + 1) if supernet.stem.works(one)) if side > 4 else side
    with torch.random.fork_rng([]):
        ghost = Supernet(
            supernet.channels,
            supernet.num_cells,
            supernet.classes,
            exits="end" if supernet.num_exits == 1 else "after_reductions",
            image_channels=image_channels,
            recompute=supernet.recompute,
        )
    x, Z = torch.zeros(IMAGES, image_channels, small, small), torch.zeros(TABLE, requires_grad=True)
    rows = [[HEAVIEST] * TABLE[1]] * 2
    kept = _kept(lambda: ghost.chosen(x, rows) if choice else ghost(x, Z))
    if supernet.recompute:  # and while its gradient is made, all that one cell keeps
        first = ghost.cells[0]
        assert isinstance(first, MixedCell)
        y = torch.zeros(IMAGES, 3 * supernet.channels, small, small)
        kept += _kept(lambda: first.chosen(y, y, rows[0]) if choice else first(y, y, Z[0]))
    return kept * side**2 // (small**2 * IMAGES)


def _kept(forward: Callable[[], object]) -> int:
    """Bytes of the maps that a forward pass keeps."""
    kept: dict[int, int] = {}
    held: list[Tensor] = []  # or addresses would be used again

    def note(tensor: Tensor) -> Tensor:
        if tensor.dim() == 4 and len(tensor) == IMAGES:
            held.append(tensor)
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = forward()
    del result
    return sum(kept.values())


def step_bytes(supernet: Supernet, config: SearchConfig, side: int, image_channels: int) -> int:
    """Bytes that a step of the search needs: what is kept, weights, gradients and momentum.

    Example:
        >>> step_bytes(Supernet(4, 3), SearchConfig(batch=8, relaxation="soft"), 8, 3) > 1e6
        True
    """
    weights = 12 * sum(p.numel() for p in supernet.parameters())
    images = config.batch if config.relaxation == "soft" else config.batch // config.architectures
    single = config.relaxation == "single"
    return weights + int(SLACK * images * activation_bytes(supernet, side, image_channels, single))
