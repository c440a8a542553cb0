"""What a training is at one moment, and how it becomes arrays and back: all that resuming to the same bits needs.

The order of an epoch's images is not part of it: it follows from the seed, the learner's number and the epoch. Seeds
are spread with numpy's ``SeedSequence``, so no two streams of a committee are the same or shifted.

This file does not know files, data or losses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.store.weights import Arrays

__all__ = ["TrainState", "epoch_order", "pack", "seed_for", "unpack"]

WEIGHTS, INITIAL, ORDER, AUGMENT, NETWORK = range(5)


@dataclass
class TrainState:
    """A training between two steps.

    Attributes:
        learner: the network.
        optimiser: over its parameters.
        average: moving average of the network's state; None where none is kept.
        generator: of the augmentation.
        tally: ``[1 + 2 E]``, of this epoch so far.
        epoch: epochs that are done.
        step: steps of this epoch that are done.
        seconds: spent on steps so far.
    """

    learner: Learner
    optimiser: torch.optim.SGD
    average: dict[str, Tensor] | None
    generator: torch.Generator
    tally: Tensor
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0


def seed_for(seed: int, number: int, *purpose: int) -> int:
    """A seed of 63 bits for one purpose of one learner.

    Example:
        >>> len({seed_for(0, number, purpose) for number in range(10) for purpose in range(10)})
        100
    """
    words = np.random.SeedSequence((seed, number, *purpose)).generate_state(2, np.uint32)
    return int(words[0]) << 31 ^ int(words[1])


def epoch_order(size: int, seed: int, number: int, epoch: int) -> Tensor:
    """The order in which learner ``number`` sees ``size`` images in an epoch.

    Example:
        >>> sorted(epoch_order(5, 0, 0, 3).tolist())
        [0, 1, 2, 3, 4]
    """
    generator = torch.Generator().manual_seed(seed_for(seed, number, ORDER, epoch))
    return torch.randperm(size, generator=generator)


def pack(state: TrainState) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, Any]]:
    """The state as named arrays and numbers; the framework's own generators, which drop path draws from, included.

    Example:
        >>> from quorate.nets import cascade
        >>> from quorate.train.optim import make_optimiser
        >>> learner = cascade([torch.nn.Linear(4, 3)])
        >>> state = TrainState(learner, make_optimiser(learner), None, torch.Generator(), torch.zeros(3), epoch=2)
        >>> sorted(pack(state)[0])[:2], pack(state)[1]
        (['learner/branches.0.model.bias', 'learner/branches.0.model.weight'], {'epoch': 2, 'step': 0, 'seconds': 0.0})
    """
    tensors = {f"learner/{name}": tensor for name, tensor in state.learner.state_dict().items()}
    tensors |= {f"average/{name}": tensor for name, tensor in (state.average or {}).items()}
    for name, parameter in _trained(state.optimiser):
        if (buffer := state.optimiser.state[parameter].get("momentum_buffer")) is not None:
            tensors[f"momentum/{name}"] = buffer
    tensors |= {"tally": state.tally, "random/augment": state.generator.get_state()}
    tensors["random/cpu"] = torch.get_rng_state()
    if state.generator.device.type == "cuda":
        tensors["random/cuda"] = torch.cuda.get_rng_state(state.generator.device)
    arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
    return arrays, {"epoch": state.epoch, "step": state.step, "seconds": state.seconds}


@torch.no_grad()
def unpack(state: TrainState, arrays: Arrays, about: dict[str, Any]) -> None:
    """Put the state back, in place: every tensor keeps its device and its order in memory.

    Raises:
        QuorateError: the arrays are those of another training.
    """
    wanted = {name: tuple(array.shape) for name, array in pack(state)[0].items()}
    wanted |= {f"momentum/{name}": tuple(p.shape) for name, p in _trained(state.optimiser)}
    found = {name: array.shape for name, array in arrays.items()}
    unmoved = {name for group in _momenta(state.optimiser) if not group & found.keys() for name in group}
    if found != {name: shape for name, shape in wanted.items() if name not in unmoved}:
        odd = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        raise QuorateError(f"the checkpoint is one of another network or setting (see {', '.join(odd[:3])})")
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    for name, target in state.learner.state_dict().items():
        target.copy_(tensors[f"learner/{name}"])
    for name, target in (state.average or {}).items():
        target.copy_(tensors[f"average/{name}"])
    for name, parameter in _trained(state.optimiser):
        if (held := tensors.get(f"momentum/{name}")) is not None:
            state.optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(held)
    state.tally.copy_(tensors["tally"])
    state.generator.set_state(tensors["random/augment"])
    torch.set_rng_state(tensors["random/cpu"])
    if state.generator.device.type == "cuda":
        torch.cuda.set_rng_state(tensors["random/cuda"], state.generator.device)
    state.epoch, state.step, state.seconds = int(about["epoch"]), int(about["step"]), float(about["seconds"])


def _momenta(optimiser: torch.optim.Optimizer) -> list[set[str]]:
    """The names of the buffers of each group; a group that has not moved yet has none of them."""
    return [{f"momentum/{name}" for name in group["names"]} for group in optimiser.param_groups]


def _trained(optimiser: torch.optim.Optimizer) -> list[tuple[str, Tensor]]:
    """Every parameter that moves, with its name."""
    return [pair for group in optimiser.param_groups for pair in zip(group["names"], group["params"], strict=True)]
