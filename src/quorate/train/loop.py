"""Training one learner: epochs of steps, watched, kept, and resumed to the same bits.

METHOD: final training. The learner is evaluated on the calibration part after each epoch and on the test part once, at
the end. A checkpoint is written between two steps whenever ``checkpoint_seconds`` have passed; a process that is killed
at any moment goes on from the last one, and ends with the same weights as if nothing had happened.

Shapes: ``E`` exits, ``N`` training images.

This file does not know other learners, nor in which process it runs.
"""

import math
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quorate.data.dataset import Dataset
from quorate.data.splits import digest
from quorate.errors import QuorateError
from quorate.nets import Learner, drop_path_at
from quorate.store.run import InputSpec, held
from quorate.train.augment import Augmentation, augmentation_for
from quorate.train.config import Training
from quorate.train.evaluation import Evaluation, channels_of, evaluate, part_of
from quorate.train.inputs import Part, input_for
from quorate.train.keeping import Keeper
from quorate.train.optim import average_decay_at, averaged, hold_backbone, learning_rate_at, make_optimiser
from quorate.train.progress import EVERY, Listener, Progress
from quorate.train.state import AUGMENT, NETWORK, TrainState, epoch_order, seed_for
from quorate.train.step import Step, make_step

__all__ = ["DivergedError", "Fitted", "augmentation_of", "device_called", "fit"]

HOPELESS = 30.0
"""A loss this many times that of guessing is no bad moment any more: nothing leads back from there."""


class DivergedError(QuorateError):
    """The loss is no number any more, or far beyond that of guessing. The last good checkpoint is kept."""


class Fitted(NamedTuple):
    """What came of a training.

    Attributes:
        history: one row per epoch.
        accuracy: share of right votes at each exit, by part: ``calibration`` (where one is held out) and ``test``.
        seconds: spent on steps.
    """

    history: list[dict[str, Any]]
    accuracy: dict[str, tuple[float, ...]]
    seconds: float


def fit(
    learner: Learner,
    data: Dataset,
    training: Training | None = None,
    *,
    number: int = 0,
    folder: str | os.PathLike[str] | None = None,
    spec: InputSpec | None = None,
    device: str | torch.device = "cpu",
    listen: Listener = lambda told: None,
) -> Fitted:
    """Train a learner in place.

    Parameters that want no gradient stay as they are (``attach_exits(..., freeze=True)`` trains heads only).

    Args:
        learner: any learner: DARTS, exits on a network of your own, a cascade.
        data: the images.
        training: how; by default the paper's way, which takes 600 epochs.
        number: of the learner in its committee: its streams of random numbers are its own.
        folder: where ``history.jsonl``, checkpoints and at last ``weights.safetensors`` are written. A training that is
            found there is taken up where it stopped; a finished one is loaded. None: nothing is written.
        spec: how the learner sees images; by default as they are, grey ones repeated for a network of three channels.
        device: where it is trained.
        listen: told about its progress.

    Returns:
        History and accuracies; the learner holds the final weights, in evaluation mode.

    Note:
        Every batch has the same size: what is left over of an epoch is left out, another remainder each time. The
        original code makes a smaller batch of it.

    Raises:
        ValueError: the images do not suit the learner, or exit weights its exits.
        DivergedError: says at which step, and what to try.
        QuorateError: the folder cannot be written, or holds another training.

    Example:
        >>> from quorate.data import load
        >>> from quorate.nets import DARTS_V2, DartsLearner
        >>> learner = DartsLearner(DARTS_V2, channels=2, cells=3)
        >>> fitted = fit(learner, load("digits"), Training(epochs=1, batch=128, drop_path=0))
        >>> len(fitted.history), sorted(fitted.accuracy), len(fitted.accuracy["test"])
        (1, ['calibration', 'test'], 2)
    """
    training, device = training or Training(), device_called(device)
    _check(learner, data, training)
    spec = spec or input_for(data, channels=channels_of(learner))
    identity = _identity(data, training, number, spec)
    with (
        torch.random.fork_rng([device] if device.type == "cuda" else []),  # drop path draws from these generators
        nullcontext() if folder is None else held(folder, alone=True) as path,
    ):
        torch.manual_seed(seed_for(training.seed, number, NETWORK))
        keeper = Keeper(path, identity, training.checkpoint_seconds)
        if (about := keeper.finished(learner)) is not None:
            learner.to(device).eval()
            accuracy = {part: tuple(values) for part, values in about["accuracy"].items()}
            return Fitted(keeper.history, accuracy, about["seconds"])
        run = _begin(learner, data, training, number, spec, device, keeper, listen)
        keeper.resume(run.state)
        while run.state.epoch < training.epochs:
            _train_epoch(run)
            _end_epoch(run)
        return _finish(run, part_of(data, "test", training.calibration, training.seed, device))


def device_called(name: str | torch.device) -> torch.device:
    """The device of that name, if it is there.

    Example:
        >>> device_called("cpu")
        device(type='cpu')
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"device must be cpu, cuda or, of several, cuda:1, got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {name} is not there: torch finds no CUDA device; use cpu")
    return device


def augmentation_of(training: Training, spec: InputSpec, *, mirrored: bool) -> Augmentation:
    """The augmentation of a data set at a learner's size, where the training does not say otherwise.

    Example:
        >>> augmentation_of(Training(cutout=0), InputSpec(32, 32, 1, (0.5,), (0.5,)), mirrored=False)
        Augmentation(pad=4, mirror=False, cutout=0)
    """
    usual = augmentation_for(min(spec.height, spec.width), mirrored=mirrored)
    return Augmentation(
        usual.pad if training.pad is None else training.pad,
        usual.mirror if training.mirror is None else training.mirror,
        usual.cutout if training.cutout is None else training.cutout,
    )


def _check(learner: Learner, data: Dataset, training: Training) -> None:
    if learner.classes != len(data.classes):
        raise ValueError(
            f"the learner must tell {len(data.classes)} classes apart, as many as {data.name} has, "
            f"got {learner.classes}; build it with classes={len(data.classes)}"
        )
    if training.exit_weights is not None and len(training.exit_weights) != learner.num_exits:
        raise ValueError(
            f"exit_weights must be one for each of {learner.num_exits} exits, got {list(training.exit_weights)}"
        )


def _identity(data: Dataset, training: Training, number: int, spec: InputSpec) -> dict[str, Any]:
    """What must be the same for a training to be the same one; how often it is saved need not be."""
    return {
        "training": training.model_dump(mode="json", exclude={"checkpoint_seconds"}),
        "data": {"name": data.name, "labels": digest(data.train_labels), "classes": list(data.classes)},
        "input": {**vars(spec), "mean": list(spec.mean), "std": list(spec.std)},
        "number": number,
    }


@dataclass
class _Run:
    """A training in motion, and what it was begun with."""

    state: TrainState
    step: Step
    train: Part
    calibration: Part
    training: Training
    number: int
    spec: InputSpec
    keeper: Keeper
    listen: Listener
    batch: int
    told: float = field(default_factory=time.monotonic)

    @property
    def steps(self) -> int:
        """Steps of an epoch."""
        return len(self.train) // self.batch

    @property
    def done(self) -> int:
        """Steps that are done, of all epochs."""
        return self.state.epoch * self.steps + self.state.step


def _begin(
    learner: Learner,
    data: Dataset,
    training: Training,
    number: int,
    spec: InputSpec,
    device: torch.device,
    keeper: Keeper,
    listen: Listener,
) -> _Run:
    learner.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    train, held_out = (
        part_of(data, name, training.calibration, training.seed, device) for name in ("train", "calibration")
    )
    optimiser = make_optimiser(
        learner,
        momentum=training.momentum,
        weight_decay=training.weight_decay,
        backbone_rate=training.backbone_rate,
        apart=training.heads_first > 0,
    )
    generator = torch.Generator(device).manual_seed(seed_for(training.seed, number, AUGMENT))
    average = {name: t.clone() for name, t in learner.state_dict().items()} if training.average > 0 else None
    state = TrainState(learner, optimiser, average, generator, _no_tally(learner, device))
    how = augmentation_of(training, spec, mirrored=data.mirror)
    step = make_step(learner, optimiser, training, spec, how, generator)
    batch = min(training.batch, len(train) // training.accumulate * training.accumulate)
    return _Run(state, step, train, held_out, training, number, spec, keeper, listen, batch)


def _no_tally(learner: Learner, device: torch.device) -> Tensor:
    return torch.zeros(1 + 2 * learner.num_exits, device=device)


def _train_epoch(run: _Run) -> None:
    """The steps of an epoch that are still to do."""
    state, training, device = run.state, run.training, run.train.device
    order = epoch_order(len(run.train), training.seed, run.number, state.epoch).to(device)
    state.learner.train()
    if training.heads_first:
        hold_backbone(state.optimiser, state.epoch < training.heads_first)
    if (set_drop_path := getattr(state.learner, "set_drop_path", None)) is not None:
        set_drop_path(drop_path_at(state.epoch, training.epochs, training.drop_path))
    while state.step < run.steps:
        began = time.perf_counter()
        rate = learning_rate_at(run.done, training.epochs * run.steps, training.rate, training.final_rate)
        images, labels = run.train.batch(order[state.step * run.batch : (state.step + 1) * run.batch])
        state.tally += run.step(images, labels, rate)
        if state.average is not None:
            averaged(state.average, state.learner.state_dict(), average_decay_at(run.done, training.average))
        state.step += 1
        state.seconds += time.perf_counter() - began
        due = run.keeper.due()
        if due or device.type == "cpu":  # elsewhere a look would wait for the device
            _look(run)
        if due:
            run.keeper.save(state, run.done)


def _look(run: _Run) -> None:
    """Stop a training that went wrong; tell of one that goes well."""
    state, images = run.state, run.state.step * run.batch
    loss = float(state.tally[0]) / images
    weights = run.training.exit_weights or (1.0,) * state.learner.num_exits
    if not loss <= HOPELESS * math.log(state.learner.classes) * sum(weights):  # not a number is not below it either
        lower = run.training.rate / 10
        raise DivergedError(
            f"learner {run.number}: the loss became {loss:g} by step {run.done} (step {state.step} of epoch "
            f"{state.epoch}); the last checkpoint is kept. Try a smaller rate ({lower:g}), a smaller clip, or "
            "float32 precision, in another folder"
        )
    if time.monotonic() - run.told >= EVERY:
        entropy, right = _means(state.tally, images)
        _tell(run, entropy, right, held_out=False)


def _end_epoch(run: _Run) -> None:
    """Evaluate, note, and go on to the next epoch."""
    state = run.state
    _look(run)
    entropy, right = _means(state.tally, run.steps * run.batch)
    now = _evaluated(run, run.calibration)
    row = {
        "epoch": state.epoch,
        "rate": learning_rate_at(run.done - 1, run.training.epochs * run.steps, run.training.rate,
                                 run.training.final_rate),
        "drop_path": drop_path_at(state.epoch, run.training.epochs, run.training.drop_path),
        "loss": entropy,
        "accuracy": right,
        "calibration_loss": None if now is None else now.loss,
        "calibration_accuracy": None if now is None else now.accuracy,
        "seconds": round(state.seconds, 3),
    }  # fmt: skip
    run.keeper.note(row)
    state.epoch, state.step = state.epoch + 1, 0
    state.tally.zero_()
    _tell(run, entropy, right if now is None else now.accuracy, held_out=now is not None)
    if run.keeper.due():
        run.keeper.save(state, run.done)


def _evaluated(run: _Run, part: Part) -> Evaluation | None:
    return evaluate(run.state.learner, part, run.spec, run.state.average) if len(part) else None


def _finish(run: _Run, test: Part) -> Fitted:
    """Take the average for the weights where there is one, judge them, write them."""
    learner = run.state.learner
    if run.training.heads_first:
        hold_backbone(run.state.optimiser, False)
    if run.state.average is not None:
        learner.load_state_dict(run.state.average)
        run.state.average = None
    learner.eval()
    parts = {"calibration": _evaluated(run, run.calibration), "test": _evaluated(run, test)}
    accuracy = {name: judged.accuracy for name, judged in parts.items() if judged is not None}
    run.keeper.finish(learner, {"accuracy": accuracy, "seconds": run.state.seconds})
    return Fitted(run.keeper.history, accuracy, run.state.seconds)


def _means(tally: Tensor, images: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean cross-entropy and share of right votes of each exit."""
    entropy, right = (tally[1:] / images).view(2, -1).tolist()
    return tuple(entropy), tuple(right)


def _tell(run: _Run, loss: tuple[float, ...], accuracy: tuple[float, ...], *, held_out: bool) -> None:
    run.told = time.monotonic()
    epochs = run.training.epochs
    speed = run.done * run.batch / max(run.state.seconds, 1e-9)
    run.listen(
        Progress(run.number, run.done, epochs * run.steps, run.state.epoch, epochs, speed, loss, accuracy, held_out)
    )
