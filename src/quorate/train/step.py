"""One step of training: a batch of bytes in, weights moved, a tally out.

METHOD: final training. Augmentation, forward pass, joint loss (Eq. 2), backward pass, clipping, SGD. Every piece is
device-agnostic and :func:`make_step` is the one place that chooses by device, so that a device may have a form of its
own behind the same call.

Shapes: ``E`` exits, ``B`` images of ``H`` x ``W`` pixels and ``C`` channels. A *tally* is ``[1 + 2 E]``: sums over the
batch of the joint loss, of each exit's cross-entropy, and of each exit's right votes.

This file does not know epochs, schedules, data sets or checkpoints.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from quorate.nets import Learner
from quorate.store.run import InputSpec
from quorate.train.augment import Augmentation, Scale, augment, scale_for
from quorate.train.config import Training
from quorate.train.inputs import shown
from quorate.train.loss import joint_loss

WORTH_CASTING = 16
"""Side of images from which bfloat16 is taken on a CPU that has it."""

__all__ = ["Step", "autocast_for", "make_step", "tally_of"]


class Step(Protocol):
    """Moves the weights once."""

    def __call__(self, images: Tensor, labels: Tensor, rate: float) -> Tensor:
        """Learn from uint8 ``[B, H, W, C]`` and ``[B]`` at a learning rate; the tally of the batch."""


def make_step(
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    training: Training,
    spec: InputSpec,
    how: Augmentation,
    generator: torch.Generator,
) -> Step:
    """The step that suits the device of ``generator``, where the learner's weights and the batches must be.

    Args:
        learner: in training mode when the step is called.
        optimiser: of groups with a ``factor``; see :func:`quorate.train.optim.parameter_groups`.
        training: loss, clipping, precision, accumulation.
        spec: how the learner sees images.
        how: the augmentation.
        generator: of the augmentation.

    Example:
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> from quorate.train.augment import augmentation_for
        >>> from quorate.train.optim import make_optimiser
        >>> learner = DartsLearner(DARTS_V2, channels=4, cells=3)
        >>> spec = InputSpec(8, 8, 3, (0.5,) * 3, (0.25,) * 3)
        >>> how, g = augmentation_for(8, mirrored=True), torch.Generator().manual_seed(0)
        >>> step = make_step(learner, make_optimiser(learner), Training(), spec, how, g)
        >>> step(torch.zeros(4, 8, 8, 3, dtype=torch.uint8), torch.tensor([0, 1, 2, 3]), rate=0.025).shape
        torch.Size([5])
    """
    scale = scale_for(spec.mean, spec.std, device=generator.device)
    return _Eager(learner, optimiser, training, spec, how, scale, generator)


class _Eager:
    """Operation after operation: what runs everywhere."""

    def __init__(
        self,
        learner: Learner,
        optimiser: torch.optim.Optimizer,
        training: Training,
        spec: InputSpec,
        how: Augmentation,
        scale: Scale,
        generator: torch.Generator,
    ) -> None:
        self.forward = torch.compile(learner) if training.compile else learner
        self.optimiser, self.training = optimiser, training
        self.spec, self.how, self.scale, self.generator = spec, how, scale, generator
        self.parameters = [p for group in optimiser.param_groups for p in group["params"]]

    def __call__(self, images: Tensor, labels: Tensor, rate: float) -> Tensor:
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["factor"]
        self.optimiser.zero_grad()
        pieces = self.training.accumulate
        tallies = [
            self._learn(x, y, 1 / pieces) for x, y in zip(images.chunk(pieces), labels.chunk(pieces), strict=True)
        ]
        if self.training.clip > 0:
            torch.nn.utils.clip_grad_norm_(self.parameters, self.training.clip)
        self.optimiser.step()
        return torch.stack(tallies).sum(0)

    def _learn(self, images: Tensor, labels: Tensor, share: float) -> Tensor:
        """Add a piece of the batch to the gradient."""
        x_BCHW = augment(shown(images, self.spec), self.how, self.scale, self.generator)
        with autocast_for(self.training.precision, images.device, min(self.spec.height, self.spec.width)):
            logits = self.forward(x_BCHW)
        loss = joint_loss(
            logits,
            labels,
            self.training.exit_weights,
            label_smoothing=self.training.label_smoothing,
            distillation=self.training.distillation,
            temperature=self.training.distillation_temperature,
        )
        torch.autograd.backward(loss * share)
        return tally_of(loss.detach(), logits, labels)


@torch.no_grad()
def tally_of(loss: Tensor, logits: Sequence[Tensor], labels: Tensor) -> Tensor:
    """``[1 + 2 E]``: sums over a batch of the joint loss, of cross-entropies, and of right votes.

    Example:
        >>> tally_of(torch.tensor(0.5), [torch.tensor([[2.0, 0.0], [1.0, 0.0]])], torch.tensor([0, 1]))
        tensor([1.0000, 1.4402, 1.0000])
    """
    apart = [F.cross_entropy(one.float(), labels, reduction="sum") for one in logits]
    right = [(one.argmax(dim=1) == labels).sum().float() for one in logits]
    return torch.stack([loss * len(labels), *apart, *right])


def autocast_for(precision: str, device: torch.device, side: int) -> torch.autocast:
    """Automatic mixed precision in bfloat16 where it is asked for, or (``auto``) where it pays.

    Args:
        precision: ``float32``, ``bfloat16`` or ``auto``.
        device: where the network runs.
        side: of its images.

    Note:
        It pays on a GPU, and on a processor with instructions for bfloat16 when maps are not tiny: a step takes 0.7 of
        the time at 32x32 and 1.1 at 8x8 (``benchmarks/RECORDS-train.md``).

    Example:
        >>> with autocast_for("auto", torch.device("cpu"), side=8):
        ...     torch.is_autocast_enabled("cpu")
        False
    """
    pays = device.type == "cuda" or (device.type == "cpu" and side >= WORTH_CASTING and _has_bfloat16())
    return torch.autocast(
        device.type, torch.bfloat16, enabled=precision == "bfloat16" or (precision == "auto" and pays)
    )


def _has_bfloat16() -> bool:
    """Whether the processor has instructions for bfloat16; no, where the framework cannot tell."""
    found = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(found and found())
