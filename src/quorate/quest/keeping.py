"""What a search keeps on disk, and what it finds there when it is taken up again::

    search/
      config.json               the configuration, versions, hardware, splits
      history.jsonl             one line an epoch, of both phases
      checkpoint/               of the phase that is running
      supernet.safetensors      weights and logits at the end of phase 1
      posterior.safetensors     the posterior's logits at the end of phase 2
      predictions/              what the supernet says of an architecture, one file each
      genotypes.json            the committees, with the table
      drawings/                 of their cells

This file does not know how anything there is made.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

from quorate.errors import QuorateError
from quorate.nets.genotype import Genotype
from quorate.quest.scoring import Predictions
from quorate.store.faults import on_disk
from quorate.store.history import append_history, cut_history, read_history
from quorate.store.run import RunFolder
from quorate.store.schema import read_document, write_document
from quorate.store.weights import Arrays, read_weights, write_weights
from quorate.train.checkpoint import load_checkpoint, remove_checkpoints, save_checkpoint

__all__ = ["CHANGEABLE", "Kept", "PredictionFolder", "as_arrays"]

SCHEMA, VERSION = "quorate.search", 1
SELECTED = (
    "rounds", "pool", "ppd_weight", "repulsion", "sigma", "svgd_steps", "svgd_rate", "svgd_momentum",
    "scoring_images", "estimation_images",
)  # fmt: skip
"""Settings of selectors, written beside each committee: those of one run may have been made with different ones."""

CHANGEABLE = ("checkpoint_seconds", "recompute", *SELECTED)
"""Settings that leave the phases as they are: another value takes up the same search."""


class Kept:
    """The folder of one search.

    Args:
        run: of the run that the search belongs to.
        identity: what must be the same for it to be the same search, as JSON can say it.
        seconds: between two checkpoints.
    """

    def __init__(self, run: RunFolder, identity: Mapping[str, Any], seconds: float) -> None:
        self.run, self.folder, self.seconds = run, run.search, seconds
        self.identity = json.loads(json.dumps(dict(identity)))
        self.saved = time.monotonic()

    def begin(self, about: Mapping[str, Any]) -> None:
        """Write ``config.json`` where there is none; refuse a folder that holds another search."""
        path = self.folder / "config.json"
        if not path.exists():
            write_document(path, SCHEMA, VERSION, {"identity": self.identity, **about})
            return
        self.check(read_document(path, SCHEMA, VERSION).get("identity", {}))

    def check(self, then: Any) -> None:
        """Refuse what belongs to another search."""
        before, now = _flat(then if isinstance(then, dict) else {}), _flat(self.identity)
        odd = [f"{name} was {before.get(name)!r}, is {now[name]!r}" for name in now if before.get(name) != now[name]]
        if odd:
            more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
            raise QuorateError(
                f"{self.folder} holds another search ({'; '.join(odd[:3])}{more}): search as before to go on, or "
                "choose another folder"
            )

    def finished(self, phase: str) -> tuple[Arrays, dict[str, Any]] | None:
        """What a phase ended with, if it did."""
        path = self.folder / f"{phase}.safetensors"
        if not path.exists():
            return None
        arrays, about = read_weights(path)
        self.check(about.get("identity"))
        return arrays, about

    def finish(self, phase: str, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Keep what a phase ended with; its checkpoints are not needed any more."""
        write_weights(self.folder / f"{phase}.safetensors", arrays, {**about, "identity": self.identity})
        remove_checkpoints(self.folder / "checkpoint" / phase)

    def forget(self, phase: str) -> None:
        """Remove what a phase ended with: what it began with is made anew, and its lines of the history with it."""
        with on_disk(path := self.folder / f"{phase}.safetensors", "written"):
            path.unlink(missing_ok=True)

    def checkpoint(self, phase: str) -> tuple[Arrays, dict[str, Any]] | None:
        """Where a phase stood."""
        found = load_checkpoint(self.folder / "checkpoint" / phase)
        if found is not None:
            self.check(found[1].get("identity"))
        return found

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return time.monotonic() - self.saved >= self.seconds

    def save(self, phase: str, step: int, arrays: Arrays, about: Mapping[str, Any]) -> None:
        """Write a checkpoint."""
        save_checkpoint(self.folder / "checkpoint" / phase, step, arrays, {**about, "identity": self.identity})
        self.saved = time.monotonic()

    def note(self, row: Mapping[str, Any]) -> None:
        """Add a line to the history."""
        append_history(self.folder / "history.jsonl", row)

    def cut(self, epoch: int) -> None:
        """Leave out the lines of an epoch and later ones."""
        cut_history(self.folder / "history.jsonl", epoch)

    def history(self) -> list[dict[str, Any]]:
        """All lines."""
        return read_history(self.folder / "history.jsonl")


class PredictionFolder(MutableMapping[Genotype, Predictions]):
    """Predictions by genotype: in memory, and one file each, so that nothing is predicted twice.

    Args:
        folder: made where it is missing.
        identity: of weights and images; a file of others is made again.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from quorate.nets import DARTS_V2
        >>> with TemporaryDirectory() as folder:
        ...     PredictionFolder(Path(folder), "a")[DARTS_V2] = np.ones((3, 2, 10), np.float32)
        ...     DARTS_V2 in PredictionFolder(Path(folder), "a"), DARTS_V2 in PredictionFolder(Path(folder), "b")
        (True, False)
    """

    def __init__(self, folder: Path, identity: str) -> None:
        with on_disk(folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.identity = folder, identity
        self.known: dict[Genotype, Predictions] = {}

    def _path(self, genotype: Genotype) -> Path:
        name = hashlib.sha256(genotype.canonical().to_json().encode()).hexdigest()[:24]
        return self.folder / f"{name}.safetensors"

    def __getitem__(self, genotype: Genotype) -> Predictions:
        if genotype not in self.known:
            path = self._path(genotype)
            if not path.exists():
                raise KeyError(genotype)
            try:
                arrays, about = read_weights(path)
            except QuorateError:
                raise KeyError(genotype) from None  # damaged: it is predicted again
            if about.get("identity") != self.identity or set(arrays) != {"probs"}:
                raise KeyError(genotype)
            self.known[genotype] = arrays["probs"]
        return self.known[genotype]

    def __setitem__(self, genotype: Genotype, probs: Predictions) -> None:
        write_weights(self._path(genotype), {"probs": probs}, {"identity": self.identity})
        self.known[genotype] = probs

    def __delitem__(self, genotype: Genotype) -> None:
        del self.known[genotype]
        self._path(genotype).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[Genotype]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return flat


def as_arrays(tensors: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Tensors as arrays, on the CPU.

    Example:
        >>> import torch
        >>> as_arrays({"a": torch.ones(2)})
        {'a': array([1., 1.], dtype=float32)}
    """
    return {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
