"""Where exits may stand on a network that somebody else wrote, when nobody says where (paper, "Arch Adapter").

Note:
    The paper names no places. Ours [ours]: after the submodules at which the network has spent nearest to
    ``1/E, 2/E, ...`` of its multiply-accumulates, the outermost of those that are equally near.

Shapes: ``E`` exits.

This file does not know how a network is cut; it proposes, and asks :func:`quorate.nets.attach_exits`.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from quorate.nets.adapter import attach_exits
from quorate.nets.learner import Inputs, check_count
from quorate.nets.restoring import kept_modes

__all__ = ["even_exits"]

TRIES = 12  # places that cannot be cut before we ask the user
DEPTH = 0.03  # what being one module deeper inside is worth, as a share of the network's cost
NEAREST = 4  # places considered for one exit


class _Place(NamedTuple):
    """A submodule, and the share of the network's cost that is spent when it ends."""

    name: str
    share: float


def even_exits(
    model: nn.Module, exits: int = 3, *, classes: int, sample: Inputs, token: Literal["mean", "first"] = "mean"
) -> list[str]:
    """Names of submodules to give to :func:`quorate.nets.attach_exits`: one after each ``1/E`` of the network's work.

    Args:
        model: a network; it is run once on the sample, in evaluation, and cut at the places found, to be sure.
        exits: how many, the network's own end included, which has no name.
        classes: number of classes.
        sample: what the network reads, as for :func:`quorate.nets.attach_exits`.
        token: as there.

    Raises:
        ValueError: if no places tried can be cut; the message says what was tried, and the last reason.

    Example:
        >>> model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(6)), nn.Linear(8, 5))
        >>> even_exits(model, 3, classes=5, sample=torch.randn(2, 8))
        ['1', '3']
    """
    check_count("exits", exits, 2)
    tried: list[str] = []
    reason = "it has too few submodules that run once"
    for names in itertools.islice(_combinations(_places(model, sample), exits), TRIES):
        try:
            attach_exits(model, names, classes=classes, sample=sample, token=token)
            return names
        except ValueError as error:
            tried.append(", ".join(names))
            reason = str(error)
    raise ValueError(
        f"no place for {exits} exits was found in a {type(model).__name__} (tried {'; '.join(tried) or 'none'}): "
        f"{reason}; name the submodules after which exits shall stand"
    )


def _combinations(places: Sequence[_Place], exits: int) -> Iterator[list[str]]:
    """Lists of places in the order in which they run, the nearest to equal shares first."""
    near = []
    for e in range(1, exits):
        order = sorted(places, key=lambda p: abs(p.share - e / exits) + DEPTH * p.name.count("."))
        near.append(order[:NEAREST])
    seen = set()
    rank = {place.name: i for i, place in enumerate(places)}
    for choice in sorted(itertools.product(range(NEAREST), repeat=exits - 1), key=lambda c: (sum(c), c)):
        if any(i >= len(row) for i, row in zip(choice, near, strict=True)):
            continue
        names = [row[i].name for i, row in zip(choice, near, strict=True)]
        rising = all(rank[a] < rank[b] for a, b in itertools.pairwise(names))
        if rising and tuple(names) not in seen:
            seen.add(tuple(names))
            yield names


def _places(model: nn.Module, sample: Inputs) -> list[_Place]:
    """The submodules that run once and give tensors, in the order in which they end."""
    names = {module: name for name, module in model.named_modules() if name}
    ended: list[tuple[str, int]] = []
    counter = FlopCounterMode(display=False)

    def note(module: nn.Module, _: Any, out: Any) -> None:
        if isinstance(out, Tensor) or (isinstance(out, tuple | list) and all(isinstance(x, Tensor) for x in out)):
            ended.append((names[module], counter.get_total_flops()))

    hooks = [module.register_forward_hook(note) for module in names]
    try:
        with kept_modes(model.modules()), torch.no_grad(), counter:  # type: ignore[no-untyped-call]
            model.eval()
            _call(model, sample)
    finally:
        for hook in hooks:
            hook.remove()
    whole = max(counter.get_total_flops(), 1)
    runs = [name for name, _ in ended]
    return [_Place(name, spent / whole) for name, spent in ended if runs.count(name) == 1 and 0 < spent < whole]


def _call(model: nn.Module, sample: Inputs) -> Any:
    if isinstance(sample, Tensor):
        return model(sample)
    return model(**sample) if hasattr(sample, "keys") else model(*sample)
