"""The search as a whole: the supernet, its posterior, committees by selector, and a table that compares them.

METHOD: QUEST. Each phase is kept when it is done; a process that is killed at any moment goes on from its last
checkpoint and finds the same genotypes. Another selector later finds the phases done and predictions kept.

Shapes: ``E`` exits, ``K`` learners.

This file does not know how a step is computed, nor what a file looks like.
"""

import hashlib
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from quorate.data.dataset import Dataset
from quorate.errors import QuorateError
from quorate.nets.darts import DartsLearner
from quorate.nets.drawing import draw_genotype
from quorate.nets.forms import memory_format
from quorate.nets.genotype import Genotype
from quorate.nets.macs import count_macs
from quorate.nets.pricing import genotype_macs
from quorate.quest.config import SELECTORS, SearchConfig
from quorate.quest.diagnosis import warnings_for
from quorate.quest.fitting import Costs
from quorate.quest.keeping import CHANGEABLE, SELECTED, Kept, PredictionFolder, as_arrays
from quorate.quest.material import ESTIMATION, SCORING, Material, material_for
from quorate.quest.memory import step_bytes
from quorate.quest.penalty import cost_table, reference_macs
from quorate.quest.phases import Listener, begin, flat_logits, load_supernet, run_posterior, run_supernet
from quorate.quest.scoring import Row, Scorer, row_for
from quorate.quest.selecting import Problem, selectors
from quorate.quest.supernet import Supernet
from quorate.store.faults import on_disk
from quorate.store.run import RunFolder, held
from quorate.store.search import read_search, write_genotypes
from quorate.train.jobs import with_threads
from quorate.train.loop import device_called
from quorate.train.records import circumstances
from quorate.train.state import seed_for

__all__ = ["Found", "build_supernet", "memory_needed", "search"]

SUPERNET, POSTERIOR = "supernet", "posterior"
WEIGHTS = 30_000
"""Stream of the supernet's first weights."""


class Found(NamedTuple):
    """What a search found.

    Attributes:
        genotypes: by selector, one for each learner.
        rows: by selector, what the supernet says of its committee.
        logits: of the posterior, ``[T, J, O]``.
        history: one row an epoch, of both phases.
    """

    genotypes: dict[str, list[Genotype]]
    rows: dict[str, Row]
    logits: Tensor
    history: list[dict[str, Any]]


def search(
    data: Dataset,
    config: SearchConfig,
    folder: str | os.PathLike[str],
    *,
    learners: int,
    selectors: Sequence[str] = ("svgd",),
    device: str | torch.device = "cpu",
    threads: int | None = None,
    listen: Listener = lambda what, done, total: None,
) -> Found:
    """Find committees, and write them to ``search/`` of a run.

    Args:
        data: the images; the part that final training holds out for calibration is never looked at.
        config: of the search.
        folder: of the run. A search that is found there goes on; phases that are done are loaded.
        learners: of a committee, ``K``.
        selectors: which committees: ``svgd``, ``monte-carlo``, ``greedy``, ``mode``, ``random``.
        device: where the supernet is.
        threads: on a CPU; by default as many as torch has. Other numbers give other bits.
        listen: told what is being done, how much of it is, and of how much.

    Returns:
        The genotypes of the selectors asked for, and how they compare.

    Raises:
        ValueError: no such selector, or images that do not suit the search.
        QuorateError: the folder cannot be written or holds another search; a loss diverged.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.data import load
        >>> tiny = SearchConfig(channels=2, cells=2, epochs=1, posterior_epochs=1, batch=256, rounds=1, svgd_steps=9,
        ...     scoring_images=64, estimation_images=64, learn_logits=False)
        >>> with TemporaryDirectory() as run:
        ...     found = search(load("digits"), tiny, run, learners=2, selectors=["svgd", "random"])
        ...     sorted(found.genotypes), len(found.genotypes["svgd"]), len(found.rows["random"].ppd)
        (['random', 'svgd'], 2, 2)
    """
    unknown = [name for name in selectors if name not in SELECTORS]
    if unknown or not selectors:
        raise ValueError(f"selectors must be among {', '.join(SELECTORS)}, got {', '.join(unknown) or 'none'}")
    if learners < 1:
        raise ValueError(f"learners must be at least 1, got {learners}")
    device, run = device_called(device), RunFolder(folder)
    with with_threads(threads or torch.get_num_threads()), held(run.search):
        material = material_for(data, config, device)
        kept = Kept(run, _identity(data, config, material), config.checkpoint_seconds)
        kept.begin({"config": config.model_dump(mode="json"), **circumstances()})
        supernet = build_supernet(data, config).to(device).to(memory_format=memory_format(device))  # type: ignore[call-overload]
        table = cost_table(config.channels, config.cells, material.spec.height).to(device, torch.float32)
        table *= material.spec.width / material.spec.height  # every operation costs the same for each pixel
        costs = Costs(table, reference_macs(table))
        logits = _phases(supernet, config, material, kept, costs, listen)
        return _committees(supernet, logits.cpu(), config, material, kept, learners, selectors, data, listen)


def memory_needed(data: Dataset, config: SearchConfig) -> int:
    """Bytes that a step of the search needs, weights included.

    Example:
        >>> from quorate.data import load
        >>> memory_needed(load("digits"), SearchConfig(channels=4, cells=3)) > 1e6
        True
    """
    side = config.side or math.ceil((data.shape[0] * data.shape[1]) ** 0.5)
    return step_bytes(build_supernet(data, config), config, side, data.shape[2])


def build_supernet(data: Dataset, config: SearchConfig) -> Supernet:
    """The supernet of a search, with its first weights.

    Example:
        >>> from quorate.data import load
        >>> build_supernet(load("digits"), SearchConfig(channels=4, cells=3)).num_exits
        2
    """
    with torch.random.fork_rng([]):
        torch.manual_seed(seed_for(config.seed, WEIGHTS))
        return Supernet(
            config.channels,
            config.cells,
            len(data.classes),
            exits=config.exits,
            image_channels=data.shape[2],
            recompute=config.recompute,
        )


def _identity(data: Dataset, config: SearchConfig, material: Material) -> dict[str, Any]:
    """What must be the same for a search to be the same one."""
    spec = material.spec
    return {
        "config": config.model_dump(mode="json", exclude=set(CHANGEABLE)),
        "data": {"name": data.name, "classes": list(data.classes), **material.digests},
        "input": {**vars(spec), "mean": list(spec.mean), "std": list(spec.std)},
    }


def _phases(
    supernet: Supernet, config: SearchConfig, material: Material, kept: Kept, costs: Costs, listen: Listener
) -> Tensor:
    """Both phases, as far as they are not done: the supernet ends with its weights, and the posterior's logits come."""
    device = costs.table.device
    if (found := kept.finished(SUPERNET)) is None:
        phase = begin(SUPERNET, supernet, config, material, kept, costs, flat_logits(device), listen, weights=True)
        kept.forget(POSTERIOR)
        kept.cut(phase.epoch)
        logits = run_supernet(phase).state.logits.value
        arrays = as_arrays({**dict(supernet.named_parameters()), "logits": logits})
        kept.finish(SUPERNET, arrays, {"seconds": phase.seconds})
    else:
        load_supernet(supernet, found[0])
        logits = torch.from_numpy(found[0]["logits"]).to(device)
    if (found := kept.finished(POSTERIOR)) is not None:
        return torch.from_numpy(found[0]["logits"])
    start = logits if config.learn_logits else flat_logits(device)
    phase = begin(POSTERIOR, supernet, config, material, kept, costs, start, listen, weights=False)
    kept.cut(config.epochs + phase.epoch)
    logits = run_posterior(phase).state.logits.value
    kept.finish(POSTERIOR, as_arrays({"logits": logits}), {"seconds": phase.seconds})
    if config.learn_logits or config.posterior_epochs > 0:
        for line in warnings_for(logits):
            warnings.warn(line, stacklevel=2)
    return logits


def _committees(
    supernet: Supernet, logits: Tensor, config: SearchConfig, material: Material, kept: Kept, learners: int,
    names: Sequence[str], data: Dataset, listen: Listener,
) -> Found:  # fmt: skip
    """Ask every selector, and write what they say beside what others said before."""
    supernet.requires_grad_(False)
    estimation, _ = material.fixed(material.train, config.estimation_images, config.seed, ESTIMATION)
    scoring, labels = material.fixed(material.validation, config.scoring_images, config.seed, SCORING)
    where = kept.folder / "predictions"
    scorer = Scorer(supernet, estimation, scoring, labels, PredictionFolder(where, _of_weights(kept, config)))
    genotypes: dict[str, list[Genotype]] = {}
    rows: dict[str, Row] = {}
    for name in names:
        problem = Problem(logits, learners, scorer, labels, config, _telling(listen, name))
        genotypes[name] = selectors()[name](problem)
        costs = [_macs_of(one, config, material, data) for one in genotypes[name]]
        rows[name] = row_for(scorer(genotypes[name]), labels, costs)
    _write(kept, genotypes, rows, config, data.name)
    return Found(genotypes, rows, logits, kept.history())


def _telling(listen: Listener, name: str) -> Any:
    return lambda done, total: listen(name, done, total)


def _macs_of(genotype: Genotype, config: SearchConfig, material: Material, data: Dataset) -> int:
    spec, classes = material.spec, len(data.classes)
    if spec.height == spec.width:
        return sum(
            genotype_macs(
                genotype, config.channels, config.cells, spec.height, classes, exits=config.exits,
                image_channels=spec.channels,
            )
        )  # fmt: skip
    with torch.device("meta"):
        learner = DartsLearner(
            genotype, config.channels, config.cells, classes, exits=config.exits, image_channels=spec.channels
        )
    return sum(count_macs(learner, (spec.channels, spec.height, spec.width)))


def _of_weights(kept: Kept, config: SearchConfig) -> str:
    """What predictions depend on: the supernet's weights and the images."""
    with on_disk(path := kept.folder / f"{SUPERNET}.safetensors"):
        digest = hashlib.sha256(path.read_bytes())
    digest.update(f"{config.scoring_images} {config.estimation_images}".encode())
    return digest.hexdigest()


def _write(
    kept: Kept, genotypes: Mapping[str, Sequence[Genotype]], rows: Mapping[str, Row], config: SearchConfig, data: str
) -> None:
    """``genotypes.json`` and the drawings; what other selectors found before stays."""
    path, before = kept.run.genotypes, {}
    if path.exists():
        try:
            before = read_search(path)[0]
        except QuorateError as error:
            warnings.warn(f"{error}; it is written anew", stacklevel=2)
    found: dict[str, Any] = {
        **before,
        **{
            name: {
                "genotypes": [{"normal": one.normal, "reduce": one.reduce} for one in chosen],
                "row": rows[name]._asdict(),
                "settings": {one: getattr(config, one) for one in SELECTED},
            }
            for name, chosen in genotypes.items()
        },
    }
    drawings = kept.folder / "drawings"
    with on_disk(drawings, "written"):
        drawings.mkdir(exist_ok=True)
        for name, chosen in genotypes.items():
            for stale in drawings.glob(f"{name}-*.svg"):
                stale.unlink(missing_ok=True)
            for k, one in enumerate(chosen):
                draw_genotype(one, Path(drawings / f"{name}-{k}.svg"), f"{name}, learner {k}")
    write_genotypes(path, found, {"data": data, "config": config.model_dump(mode="json")})
