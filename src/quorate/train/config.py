"""What can be said about a training: the one model behind the flags, the TOML file and the recorded configuration.

METHOD: final training. The defaults are the paper's: SGD from 0.025 down to 0.001 along a cosine, momentum 0.9, weight
decay 3e-4, clipping at 5, batches of 96, 600 epochs, drop path to 0.2, C = 36, L = 20.

This file does not know torch, networks or data: it holds values, and refuses those that make no sense.
"""

import math
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["TrainConfig", "Training"]

Count = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Training(BaseModel):
    """How one learner is trained.

    Attributes:
        epochs: how often every training image is shown.
        batch: images in a step.
        accumulate: pieces a batch is run in, where memory is short; batch norm sees one piece at a time.
        rate: learning rate at the beginning.
        final_rate: learning rate at the end of the cosine.
        momentum: of SGD.
        weight_decay: of SGD, on every parameter.
        clip: largest norm of the gradient; 0 for no limit.
        drop_path: probability of dropping an edge at the end; it grows linearly with the epoch.
        exit_weights: weight of each exit in the loss; by default 1 for all.
        label_smoothing: share of the target that is spread over all classes.
        distillation: weight of the last exit's answer, against the label's, in what earlier exits learn from.
        distillation_temperature: softens both answers there.
        average: decay of the moving average of the weights that is kept in the end; 0 for none.
        backbone_rate: learning rate of everything but heads, as a factor of the rate.
        heads_first: epochs at the beginning in which only heads learn, for networks that were trained before.
        pad: black pixels around an image before the random crop; by default an eighth of its side.
        cutout: side of the square that is hidden; by default half of the image's side, 0 for none.
        mirror: whether half of the images are mirrored; by default where the data set says they mean the same.
        calibration: share of the training images held out for calibration.
        precision: float32, bfloat16 (automatic mixed precision), or what pays on the device.
        compile: whether torch.compile makes the network faster; it takes minutes first.
        seed: of weights, splits, order, augmentation and drop path.
        checkpoint_seconds: a checkpoint is written when this time has passed; 0 for one after each step.

    Example:
        >>> Training(epochs=3).batch
        96
        >>> Training(batch=96, accumulate=5)
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for Training
          Value error, batch must be a multiple of accumulate, got 96 and 5; ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: Count = 600
    batch: Count = 96
    accumulate: Count = 1
    rate: Positive = 0.025
    final_rate: NotNegative = 0.001
    momentum: Share = 0.9
    weight_decay: NotNegative = 3e-4
    clip: NotNegative = 5.0
    drop_path: Share = 0.2
    exit_weights: tuple[NotNegative, ...] | None = None
    label_smoothing: Share = 0.0
    distillation: Annotated[float, Field(ge=0, le=1)] = 0.0
    distillation_temperature: Positive = 1.0
    average: Share = 0.0
    backbone_rate: NotNegative = 1.0
    heads_first: Natural = 0
    pad: Natural | None = None
    cutout: Natural | None = None
    mirror: bool | None = None
    calibration: Share = 0.1
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    compile: bool = False
    seed: Natural = 0
    checkpoint_seconds: NotNegative = 60.0

    @model_validator(mode="after")
    def _fits_together(self) -> "Training":
        if self.batch % self.accumulate:
            pieces = max(n for n in range(1, self.accumulate + 1) if self.batch % n == 0)
            raise ValueError(
                f"batch must be a multiple of accumulate, got {self.batch} and {self.accumulate}; try {pieces} pieces"
            )
        if self.final_rate > self.rate:
            raise ValueError(f"final_rate must not be above rate, got {self.final_rate} and {self.rate}; swap them")
        if self.exit_weights is not None and not math.fsum(self.exit_weights) > 0:
            raise ValueError(f"exit_weights must not all be 0, got {list(self.exit_weights)}")
        return self


class TrainConfig(Training):
    """A whole run of training: which learners, on what, where.

    Attributes:
        data: a data set by name, folder:PATH or arrays:FILE.
        root: where named data sets are kept; by default $QUORATE_DATA, else ~/.cache/quorate.
        side: height and width of images from a folder of pictures.
        genotype: of every learner, or one for each: a name, a file, or the classic notation.
        learners: how many; by default one for each genotype.
        channels: of the first cells.
        cells: of each network.
        run: the directory to write to; by default runs/ and the name of the data.
        device: cpu, cuda, cuda:1, or what there is.
        jobs: learners trained at the same time, in processes of their own.
        threads: of all jobs together on a CPU; by default one for each core.

    Example:
        >>> TrainConfig(data="cifar10", learners=3).genotype
        ('DARTS_V2',)
    """

    data: str = "digits"
    root: Path | None = None
    side: Count = 64
    genotype: tuple[str, ...] = ("DARTS_V2",)
    learners: Count | None = None
    channels: Count = 36
    cells: Count = 20
    run: Path | None = None
    device: str = "auto"
    jobs: Count = 1
    threads: Count | None = None

    @model_validator(mode="after")
    def _genotypes_for_learners(self) -> "TrainConfig":
        given = len(self.genotype)
        if not given:
            raise ValueError("genotype must name at least one architecture, got none; try DARTS_V2")
        if self.learners is not None and given not in (1, self.learners):
            raise ValueError(f"genotype must be one for all learners or one for each of {self.learners}, got {given}")
        return self
