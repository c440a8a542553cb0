"""The two phases of training a search, epoch after epoch, kept and taken up again to the same bits.

Shapes: ``E`` exits; a *tally* is ``[1 + 2 E]``.

This file does not know selectors, nor what a step computes.
"""

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from quorate.errors import QuorateError
from quorate.quest import adam, fitting, posterior
from quorate.quest.concrete import temperature_at
from quorate.quest.config import SearchConfig
from quorate.quest.diagnosis import diagnose, dominating
from quorate.quest.fitting import Costs, State
from quorate.quest.keeping import Kept, as_arrays
from quorate.quest.material import LOGITS, POSTERIOR, TRAIN, Material
from quorate.quest.penalty import penalty
from quorate.quest.supernet import TABLE, Supernet
from quorate.store.weights import Arrays
from quorate.train.optim import learning_rate_at
from quorate.train.state import seed_for

__all__ = ["Listener", "Phase", "begin", "flat_logits", "load_supernet", "run_posterior", "run_supernet"]

Listener = Callable[[str, int, int], None]
"""Told what is done, how many steps of it are, and of how many."""

HOPELESS = 30.0
SAMPLES, AUGMENT = 0, 1


@dataclass
class Phase:
    """A phase in motion: everything that a checkpoint must hold, and what it was begun with."""

    name: str
    supernet: Supernet
    config: SearchConfig
    material: Material
    kept: Kept
    costs: Costs
    state: State
    augment: torch.Generator
    optimiser: torch.optim.SGD | None
    listen: Listener
    epoch: int = 0
    step: int = 0
    seconds: float = 0.0
    first_loss: float = math.nan
    tally: Tensor = field(default_factory=lambda: torch.zeros(1))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything with numbers."""
        tensors: dict[str, Tensor] = {f"logits/{name}": t for name, t in self.state.logits._asdict().items()}
        tensors |= {"baseline": self.state.baseline, "tally": self.tally}
        tensors |= {"random/samples": self.state.generator.get_state(), "random/augment": self.augment.get_state()}
        if self.optimiser is not None:
            tensors |= {f"supernet/{name}": p for name, p in self.supernet.named_parameters()}
            for name, parameter in self.supernet.named_parameters():
                tensors[f"momentum/{name}"] = self.optimiser.state[parameter]["momentum_buffer"]
        return as_arrays(tensors)

    def save(self) -> None:
        """Write a checkpoint."""
        about = {name: getattr(self, name) for name in ("epoch", "step", "seconds")}
        about["first_loss"] = None if math.isnan(self.first_loss) else self.first_loss
        self.kept.save(self.name, 1_000_000 * self.epoch + self.step, self.arrays(), about)

    @torch.no_grad()
    def resume(self) -> None:
        """Stand where the last whole checkpoint stood."""
        if (found := self.kept.checkpoint(self.name)) is None:
            return
        arrays, about = found
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        device = self.state.baseline.device
        names = self.state.logits._fields
        moved = adam.State(**{name: tensors[f"logits/{name}"].to(device) for name in names})
        self.state.generator.set_state(tensors["random/samples"])
        self.augment.set_state(tensors["random/augment"])
        self.state = State(moved, tensors["baseline"].to(device), self.state.generator)
        self.tally = tensors["tally"].to(device)
        if self.optimiser is not None:
            load_supernet(self.supernet, {n.removeprefix("supernet/"): a for n, a in arrays.items()})
            for name, parameter in self.supernet.named_parameters():
                self.optimiser.state[parameter]["momentum_buffer"].copy_(tensors[f"momentum/{name}"])
        self.epoch, self.step, self.seconds = int(about["epoch"]), int(about["step"]), float(about["seconds"])
        self.first_loss = math.nan if about["first_loss"] is None else float(about["first_loss"])


@torch.no_grad()
def load_supernet(supernet: Supernet, arrays: Arrays) -> None:
    """Put weights into a supernet, in place.

    Raises:
        QuorateError: they are those of another one.
    """
    for name, parameter in supernet.named_parameters():
        if name not in arrays or arrays[name].shape != tuple(parameter.shape):
            raise QuorateError(f"the weights that were kept are those of another supernet (see {name})")
        parameter.copy_(torch.from_numpy(np.array(arrays[name])))


def begin(
    name: str, supernet: Supernet, config: SearchConfig, material: Material, kept: Kept, costs: Costs,
    logits: Tensor, listen: Listener, *, weights: bool,
) -> Phase:  # fmt: skip
    """A phase, at its beginning or where it was left."""
    device = logits.device
    stream = TRAIN if weights else POSTERIOR
    samples, augment = (
        torch.Generator(device).manual_seed(seed_for(config.seed, stream, 100 + purpose))
        for purpose in (SAMPLES, AUGMENT)
    )
    state = (fitting if weights else posterior).init(logits, samples)
    tally = torch.zeros(1 + 2 * supernet.num_exits, device=device)
    optimiser = fitting.make_optimiser(supernet, config) if weights else None
    phase = Phase(name, supernet, config, material, kept, costs, state, augment, optimiser, listen, tally=tally)
    supernet.train()
    supernet.requires_grad_(weights)
    phase.resume()
    return phase


def run_supernet(phase: Phase) -> Phase:
    """Phase 1: all its epochs."""
    config, part, material = phase.config, phase.material.train, phase.material
    per_epoch = len(part) // config.batch
    total = config.epochs * per_epoch
    assert phase.optimiser is not None
    while phase.epoch < config.epochs:
        pairs = material.batches(part, config.batch, config.seed, TRAIN, phase.epoch, phase.step)
        others = material.batches(part, config.batch, config.seed, LOGITS, phase.epoch, phase.step)
        temperature = temperature_at(phase.epoch, config.epochs, config.temperature, config.final_temperature)
        learn = config.learn_logits and phase.epoch >= config.warmup * config.epochs
        last = learning_rate_at((phase.epoch + 1) * per_epoch - 1, total, config.rate, config.final_rate)
        for images, labels in pairs:
            began, done = time.perf_counter(), phase.epoch * per_epoch + phase.step
            batches = [(material.augmented(images, phase.augment), labels)]
            if config.level == "bi":
                more, their = next(others)
                batches.append((material.augmented(more, phase.augment), their))
            rate = learning_rate_at(done, total, config.rate, config.final_rate)
            phase.state, tally = fitting.update(
                phase.state, phase.supernet, phase.optimiser, batches, config, phase.costs,
                temperature=temperature, rate=rate, learn_logits=learn,
            )  # fmt: skip
            _count(phase, tally, began, done + 1, total, "supernet")
        _end_epoch(phase, phase.epoch, {"phase": "supernet", "temperature": temperature, "rate": last})
    return phase


def run_posterior(phase: Phase) -> Phase:
    """Phase 2: all its epochs."""
    config, part, material = phase.config, phase.material.validation, phase.material
    per_epoch = len(part) // config.batch
    kl_weight = 1 / len(part) if config.kl_weight is None else config.kl_weight
    while phase.epoch < config.posterior_epochs:
        for images, labels in material.batches(part, config.batch, config.seed, POSTERIOR, phase.epoch, phase.step):
            began, done = time.perf_counter(), phase.epoch * per_epoch + phase.step
            x = material.augmented(images, phase.augment)
            phase.state, tally = posterior.update(phase.state, phase.supernet, x, labels, config, kl_weight)
            _count(phase, tally, began, done + 1, config.posterior_epochs * per_epoch, "posterior")
        divergence = float(posterior.divergence(phase.state.logits.value))
        _end_epoch(phase, config.epochs + phase.epoch, {"phase": "posterior", "divergence": divergence})
    return phase


def _count(phase: Phase, tally: Tensor, began: float, done: int, total: int, what: str) -> None:
    """One step more; what must be known on the host is looked at when a checkpoint is due, and on a CPU always."""
    phase.tally = phase.tally + tally
    phase.step += 1
    phase.seconds += time.perf_counter() - began
    if math.isnan(phase.first_loss):
        phase.first_loss = float(tally[0]) / phase.config.batch
        _warn_of_costs(phase)
    due = phase.kept.due()
    if due or tally.device.type == "cpu":
        _look(phase)
    if due:
        phase.save()
    phase.listen(what, done, total)


def _warn_of_costs(phase: Phase) -> None:
    """At the first step, when the table is uniform; of the relative penalty what counts is its part that can fall."""
    if phase.optimiser is None or not phase.config.learn_logits:
        return  # no penalty
    cost = 1.0 if phase.config.cost_form == "relative" else phase.costs.reference / 1e6
    if said := dominating(phase.config.cost_weight * cost, phase.first_loss):
        warnings.warn(said, stacklevel=2)


def _look(phase: Phase) -> None:
    loss = float(phase.tally[0]) / (phase.step * phase.config.batch)
    if not loss <= HOPELESS * math.log(phase.supernet.classes) * phase.supernet.num_exits:
        raise QuorateError(
            f"the supernet's loss became {loss:g} by step {phase.step} of epoch {phase.epoch}; the last checkpoint is "
            f"kept. Try a smaller rate ({phase.config.rate / 10:g}) or float32 precision, in another folder"
        )


def _end_epoch(phase: Phase, epoch: int, more: Mapping[str, Any]) -> None:
    """A line of the history, and on to the next epoch."""
    logits, config = phase.state.logits.value, phase.config
    told = diagnose(logits, phase.costs.table)
    exits = phase.supernet.num_exits
    means = (phase.tally / (phase.step * config.batch)).tolist()
    q = logits.detach().softmax(-1)
    row = {
        "epoch": epoch,
        **more,
        "loss": means[1 : 1 + exits],
        "accuracy": means[1 + exits :],
        "entropy": told.entropy,
        "largest": told.largest,
        "expected_macs": told.expected_macs,
        "free_share": told.free_share,
        "penalty": float(penalty(q, phase.costs.table, phase.costs.reference, config.cost_form)),
        "seconds": round(phase.seconds, 3),
    }
    phase.kept.note(row)
    phase.epoch, phase.step = phase.epoch + 1, 0
    phase.tally = torch.zeros_like(phase.tally)
    if phase.kept.due():
        phase.save()


def flat_logits(device: torch.device) -> Tensor:
    """Logits that say nothing."""
    return torch.zeros(TABLE, device=device)
