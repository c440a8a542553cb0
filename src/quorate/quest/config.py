"""What can be said about a search: the one model behind the flags, the TOML file and the recorded configuration.

METHOD: the supernet, the posterior, SVGD-RD. Where the paper gives a number it is the default, apart from the form of
the penalty, the relaxation and the repulsion; :func:`quorate.recipes.searches.cifar10_paper` has the paper's.

This file does not know torch, networks or data: it holds values, and refuses those that make no sense.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from quorate.train.config import Count, Natural, NotNegative, Positive, Share

__all__ = ["SELECTORS", "SearchConfig", "Selector"]

Selector = Literal["svgd", "monte-carlo", "greedy", "mode", "random"]
SELECTORS: tuple[Selector, ...] = ("svgd", "monte-carlo", "greedy", "mode", "random")


class SearchConfig(BaseModel):
    """How a committee is searched.

    Attributes:
        relaxation: soft evaluates every operation (the paper), single only the sampled one of each edge.
        level: single: weights and logits learn from the same batch; bi: logits from a batch of their own.
        estimator: of the logits' gradient: score (score function) or straight-through; auto takes the score function
            where one operation is evaluated, and the Concrete sample's own gradient where all are.
        architectures: sampled in each step of a single relaxation, one for each part of the batch.
        cost_form: relative: expected MACs over those of the uniform table, minus one; linear: in millions (the paper).
        cost_weight: weight of the penalty.
        channels: of the first cells of the supernet.
        cells: of the supernet.
        exits: after_reductions: after each reduction cell and at the end; end: one head.
        side: height and width to which images are resized for the search; by default their own.
        epochs: of the supernet.
        batch: images in a step, of both phases.
        rate: learning rate of the weights at the beginning.
        final_rate: learning rate of the weights at the end of the cosine.
        momentum: of the weights' SGD.
        weight_decay: of the weights.
        clip: largest norm of the weights' gradient; 0 for no limit.
        logit_rate: learning rate of the logits' Adam.
        logit_decay: weight decay of the logits.
        warmup: share of the epochs in which only weights learn.
        learn_logits: whether phase 1 learns them; if not, architectures are drawn uniformly and the posterior begins
            flat, as in NESBS.
        temperature: of the Concrete distribution at the beginning.
        final_temperature: at the end.
        posterior_epochs: of the posterior.
        posterior_rate: learning rate of the posterior's Adam.
        posterior_decay: weight decay of the posterior's logits.
        posterior_estimator: score, or straight-through with all operations evaluated; auto as for the relaxation.
        kl_weight: of the divergence from the uniform table; by default one over the number of validation images.
        sigma: width of the density around each one-hot corner.
        repulsion: 1 + delta: weight of the repulsive force; 1 is plain SVGD, zero or less makes particles collapse.
        svgd_steps: of each round.
        svgd_rate: step size of the particles.
        svgd_momentum: of the particles.
        rounds: runs of the particles from different seeds; the set with the lowest loss is kept.
        pool: draws from the posterior among which greedy selects.
        ppd_weight: of the mean disagreement over exits, in what greedy maximises.
        scoring_images: validation images on which architectures are scored; 0 for all.
        estimation_images: training images from which batch statistics are estimated before scoring.
        calibration: share of the training images that final training holds out; the search never sees them.
        search_validation: share of the rest that the posterior and the scoring see.
        mirror: whether half of the images are mirrored; by default where the data set says they mean the same.
        pad: black pixels around an image before the random crop; by default an eighth of its side.
        precision: float32, bfloat16 (automatic mixed precision), or what pays on the device.
        recompute: keep less in memory and compute cells again in the backward pass.
        seed: of weights, samples, order, augmentation, particles and draws.
        checkpoint_seconds: a checkpoint is written when this time has passed; 0 for one after each step.

    Example:
        >>> SearchConfig(epochs=3).cells
        8
        >>> SearchConfig(relaxation="single", architectures=48, batch=64)
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for SearchConfig
          Value error, batch must be a multiple of architectures, got 64 and 48; ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    relaxation: Literal["soft", "single"] = "single"
    level: Literal["single", "bi"] = "single"
    estimator: Literal["auto", "score", "straight-through"] = "auto"
    architectures: Count = 2
    cost_form: Literal["relative", "linear"] = "relative"
    cost_weight: NotNegative = 0.2
    channels: Count = 16
    cells: Annotated[int, Field(ge=2)] = 8
    exits: Literal["after_reductions", "end"] = "after_reductions"
    side: Count | None = None
    epochs: Count = 150
    batch: Count = 64
    rate: Positive = 0.025
    final_rate: NotNegative = 0.001
    momentum: Share = 0.9
    weight_decay: NotNegative = 3e-4
    clip: NotNegative = 5.0
    logit_rate: Positive = 3e-4
    logit_decay: NotNegative = 1e-3
    warmup: Share = 0.0
    learn_logits: bool = True
    temperature: Positive = 1.0
    final_temperature: Positive = 0.03
    posterior_epochs: Natural = 20
    posterior_rate: Positive = 0.01
    posterior_decay: NotNegative = 3e-4
    posterior_estimator: Literal["auto", "score", "straight-through"] = "auto"
    kl_weight: NotNegative | None = None
    sigma: Positive = 0.5
    repulsion: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    svgd_steps: Count = 1000
    svgd_rate: Positive = 0.1
    svgd_momentum: Share = 0.9
    rounds: Count = 10
    pool: Count = 64
    ppd_weight: NotNegative = 1.0
    scoring_images: Natural = 2000
    estimation_images: Count = 512
    calibration: Share = 0.1
    search_validation: Annotated[float, Field(gt=0, lt=1)] = 0.3
    mirror: bool | None = None
    pad: Natural | None = None
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    recompute: bool = False
    seed: Natural = 0
    checkpoint_seconds: NotNegative = 60.0

    @model_validator(mode="after")
    def _fits_together(self) -> "SearchConfig":
        if self.relaxation == "single" and self.batch % self.architectures:
            parts = max(n for n in range(1, self.architectures + 1) if self.batch % n == 0)
            raise ValueError(
                f"batch must be a multiple of architectures, got {self.batch} and {self.architectures}; try {parts}"
            )
        if self.relaxation == "soft" and self.estimator == "score":
            raise ValueError(
                "estimator must be auto or straight-through with relaxation soft, got score: the score function needs "
                "one evaluated operation on each edge; take relaxation single"
            )
        if self.final_rate > self.rate:
            raise ValueError(f"final_rate must not be above rate, got {self.final_rate} and {self.rate}; swap them")
        if self.final_temperature > self.temperature:
            raise ValueError(
                f"final_temperature must not be above temperature, got {self.final_temperature} and "
                f"{self.temperature}; swap them"
            )
        return self
