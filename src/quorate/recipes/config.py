"""What can be said about a whole run: the one model behind ``quorate run``, its TOML files and the recorded
configuration.

METHOD: all of it. A recipe is a function that gives one of these; a flag or a line of TOML changes any field.

This file does not know torch, networks or data: it holds values, and refuses those that make no sense together.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from quorate.quest.config import SearchConfig
from quorate.squad import Wish
from quorate.train.config import Count, Natural, Training

__all__ = ["Measuring", "RunConfig", "Selector", "WishConfig", "amount"]

Selector = Literal["svgd", "monte-carlo", "greedy", "mode", "random"]


def amount(text: str) -> float:
    """A number with K, M or G behind it.

    Example:
        >>> amount("200M"), amount("1.5k"), amount("12")
        (200000000.0, 1500.0, 12.0)
    """
    units = {"k": 1e3, "m": 1e6, "g": 1e9}
    number, unit = (text[:-1], units[text[-1].lower()]) if text[-1:].lower() in units else (text, 1.0)
    try:
        return float(number) * unit
    except ValueError as error:
        raise ValueError(f"budget must be a number such as 200M or 1.5G, got {text!r}") from error


class WishConfig(BaseModel):
    """What the policy is chosen for.

    Attributes:
        max_drop: points of accuracy that may be lost against the static soft vote; 0.5 where no budget is given.
        budget: mean cost per sample that must not be exceeded, such as 200M.
        cost: what is to be saved: lazy, free-running, free-running-energy, f-m, f-mt, eager, milliseconds.
        batch: the batch size whose milliseconds count.
        policies: families to choose among.

    Example:
        >>> WishConfig().cost
        'lazy'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_drop: Annotated[float, Field(ge=0, le=100)] | None = None
    budget: str | None = None
    cost: Literal["lazy", "free-running", "free-running-energy", "f-m", "f-mt", "eager", "milliseconds"] = "lazy"
    batch: Count = 1
    policies: tuple[Literal["static", "squad", "confidence", "cascade", "soft", "agreement", "pool"], ...] = (
        "static", "squad", "confidence", "cascade", "soft", "agreement", "pool",
    )  # fmt: skip

    @model_validator(mode="after")
    def _can_be_meant(self) -> Self:
        """Now, not after hours of training."""
        self.as_wish()
        if not self.policies:
            raise ValueError("policies must name at least one family to choose from")
        return self

    def as_wish(self) -> Wish:
        """What it says, as :func:`quorate.squad.tune` wants it.

        Example:
            >>> WishConfig(budget="200M").as_wish().budget
            200000000.0
        """
        budget = None if self.budget is None else amount(self.budget)
        return Wish(max_drop=self.max_drop, budget=budget, cost=self.cost, batch=self.batch)


class Measuring(BaseModel):
    """How milliseconds are measured.

    Attributes:
        batches: batch sizes; none for no measurement.
        rounds: how often everybody has a turn.
        images: in a round at least, as far as there are.
        threads: of each network; by default one for each core.

    Example:
        >>> Measuring().batches
        (1, 32, 256)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    batches: tuple[Count, ...] = (1, 32, 256)
    rounds: Count = 3
    images: Count = 64
    threads: Count | None = None


class RunConfig(BaseModel):
    """A whole run: search, train, tune, export, measure, evaluate, report.

    Attributes:
        recipe: the recipe it came from, for people.
        data: a data set by name, folder:PATH or arrays:FILE.
        root: where named data sets are kept; by default $QUORATE_DATA, else ~/.cache/quorate.
        side: height and width of images from a folder of pictures; by default 64, or what the models read.
        learners: how many; by default 3, or one for each model.
        channels: of the first cells of searched networks.
        cells: of each searched network.
        exits: after_reductions (and at the end), end, or the numbers of the cells after which they stand, such as 1,3.
        genotype: architectures instead of a search: names, files, or the classic notation.
        genotypes: a run whose search found the architectures.
        selector: how the committee is chosen from what the search learned.
        match_macs: a run; random architectures of about its learners' MACs are trained, nothing is searched.
        single: one network, with as many channels as make it cost what the whole committee costs.
        model: networks of your own instead of searched ones: timm:NAME or FILE.py:FUNCTION, exits after @.
        weights: for each model a file, "pretrained" (timm: the cache or the network) or "none".
        search: the architecture search.
        training: of each learner.
        wish: what the policy is chosen for.
        measuring: of milliseconds.
        seed: of everything.
        device: cpu, cuda, cuda:1, or what there is.
        jobs: learners trained at the same time, in processes of their own.
        threads: of all jobs together on a CPU; by default one for each core.

    Example:
        >>> RunConfig(data="cifar10", training=Training(epochs=3)).learner_count
        3
        >>> RunConfig(model=("timm:resnet18",), learners=2)
        Traceback (most recent call last):
        pydantic_core._pydantic_core.ValidationError: 1 validation error for RunConfig
          Value error, learners must be as many as there are models, got 2 and 1; leave --learners out ...
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    recipe: str = "own"
    data: str = "digits"
    root: Path | None = None
    side: Count | None = None
    learners: Count | None = None
    channels: Count = 16
    cells: Count = 8
    exits: tuple[Natural, ...] | Literal["after_reductions", "end"] = "after_reductions"
    genotype: tuple[str, ...] = ()
    genotypes: Path | None = None
    selector: Selector = "svgd"
    match_macs: Path | None = None
    single: bool = False
    model: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    search: SearchConfig = SearchConfig()
    training: Training = Training()
    wish: WishConfig = WishConfig()
    measuring: Measuring = Measuring()
    seed: Natural = 0
    device: str = "auto"
    jobs: Count = 1
    threads: Count | None = None

    @field_validator("data")
    @classmethod
    def _one_name_for_a_folder(cls, data: str) -> str:
        return data if data.endswith(":/") else data.rstrip("/")

    @field_validator("exits", mode="before")
    @classmethod
    def _numbers_of_cells(cls, exits: Any) -> Any:
        """As flags and files write them: ``1,3``."""
        return exits.split(",") if isinstance(exits, str) and exits[:1].isdigit() else exits

    @property
    def learner_count(self) -> int:
        """How many learners vote."""
        return self.learners or len(self.model) or (len(self.genotype) if len(self.genotype) > 1 else 3)

    @property
    def searches(self) -> bool:
        """Whether architectures have to be found first."""
        return not (self.model or self.genotype or self.genotypes or self.match_macs)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.model and self.learners not in (None, len(self.model)):
            raise ValueError(
                f"learners must be as many as there are models, got {self.learners} and {len(self.model)}; "
                "leave --learners out"
            )
        if self.weights and len(self.weights) != len(self.model):
            raise ValueError(
                f"weights must be one for each of {len(self.model)} models (a file, pretrained or none), "
                f"got {len(self.weights)}"
            )
        if self.jobs > 1 and any(not model.startswith("timm:") for model in self.model):
            raise ValueError(
                "jobs must be 1 with networks from a file of your own, which other processes do not know, got "
                f"{self.jobs}"
            )
        if self.model and (self.single or self.match_macs or self.genotypes or self.genotype):
            raise ValueError("model brings networks of your own: leave genotypes, --match-macs and --single out")
        if sum(map(bool, (self.genotype, self.genotypes, self.match_macs))) > 1:
            raise ValueError("give one of genotype, genotypes and match_macs: each says which architectures to train")
        if len(self.genotype) > 1 and self.learners not in (None, len(self.genotype)):
            raise ValueError(
                f"genotype must be one for all learners or one for each of {self.learners}, got {len(self.genotype)}"
            )
        if self.wish.cost == "milliseconds" and self.wish.batch not in self.measuring.batches:
            raise ValueError(
                f"the wish is for milliseconds of batches of {self.wish.batch}, measured are {self.measuring.batches}: "
                "give --measuring.batches for it"
            )
        for name in ("search", "training"):
            if (own := getattr(self, name).seed) not in (0, self.seed):
                raise ValueError(f"the run has one seed, {self.seed}, got {own} for its {name}; give --seed alone")
        return self

    def seeded(self) -> "RunConfig":
        """The same with its seed in every part, and one calibration split: what is recorded, and run.

        Example:
            >>> RunConfig(seed=3).seeded().training.seed
            3
        """
        search = self.search.model_copy(update={"seed": self.seed, "calibration": self.training.calibration})
        training = self.training.model_copy(update={"seed": self.seed})
        return self.model_copy(update={"search": search, "training": training})
