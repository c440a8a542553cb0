"""How to train: batches of augmented images in, trained learners out.

    from quorate.train import Training, fit, record_votes, train_committee

Read in this order: :mod:`~quorate.train.config` (what can be said about a training), :mod:`~quorate.train.loss`,
:mod:`~quorate.train.optim`, :mod:`~quorate.train.augment`, :mod:`~quorate.train.inputs`, :mod:`~quorate.train.step`
(one step, and the one place that chooses by device), :mod:`~quorate.train.state` and :mod:`~quorate.train.checkpoint`
(what is resumed), :mod:`~quorate.train.loop` (one learner), :mod:`~quorate.train.jobs` (where K of them run),
:mod:`~quorate.train.committee` (a whole run).

Nothing here is imported before it is asked for: a configuration needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.train.augment import augment, augmentation_for, scale_for
    from quorate.train.committee import build_learners, load_learners, train_committee
    from quorate.train.config import TrainConfig, Training
    from quorate.train.evaluation import evaluate, probabilities, record_votes
    from quorate.train.inputs import input_for, shown
    from quorate.train.jobs import run_jobs
    from quorate.train.loop import DivergedError, Fitted, fit
    from quorate.train.loss import joint_loss
    from quorate.train.optim import averaged, learning_rate_at, make_optimiser, parameter_groups
    from quorate.train.progress import Progress, showing

__all__ = [
    "DivergedError",
    "Fitted",
    "Progress",
    "TrainConfig",
    "Training",
    "augment",
    "augmentation_for",
    "averaged",
    "build_learners",
    "evaluate",
    "fit",
    "input_for",
    "joint_loss",
    "learning_rate_at",
    "load_learners",
    "make_optimiser",
    "parameter_groups",
    "probabilities",
    "record_votes",
    "run_jobs",
    "scale_for",
    "showing",
    "shown",
    "train_committee",
]

_HOMES = {
    "augment": ("augment", "augmentation_for", "scale_for"),
    "committee": ("build_learners", "load_learners", "train_committee"),
    "config": ("TrainConfig", "Training"),
    "evaluation": ("evaluate", "probabilities", "record_votes"),
    "inputs": ("input_for", "shown"),
    "jobs": ("run_jobs",),
    "loop": ("DivergedError", "Fitted", "fit"),
    "loss": ("joint_loss",),
    "optim": ("averaged", "learning_rate_at", "make_optimiser", "parameter_groups"),
    "progress": ("Progress", "showing"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"quorate.train.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
