"""What a training leaves on disk while it runs, and what it finds there when it is taken up again.

A folder holds ``history.jsonl``, ``checkpoint/`` and in the end ``weights.safetensors``. Everything carries the
training's *identity*: what must be the same for it to be the same training.

This file does not know how a learner is trained.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from quorate.errors import QuorateError
from quorate.nets import Learner
from quorate.store.history import append_history, cut_history, read_history
from quorate.store.weights import check_shapes, read_weights, write_weights
from quorate.train.checkpoint import load_checkpoint, remove_checkpoints, save_checkpoint
from quorate.train.state import TrainState, pack, unpack

__all__ = ["Keeper", "load_weights"]


class Keeper:
    """Keeps one training.

    Args:
        folder: where; None keeps the history in memory, and nothing else.
        identity: of the training, as JSON can say it.
        seconds: between two checkpoints.

    Attributes:
        history: the rows so far.

    Example:
        >>> keeper = Keeper(None, {}, 60.0)
        >>> keeper.note({"epoch": 0})
        >>> keeper.history, keeper.due()
        ([{'epoch': 0}], False)
    """

    def __init__(self, folder: Path | None, identity: Mapping[str, Any], seconds: float) -> None:
        self.folder, self.identity, self.seconds = folder, dict(identity), seconds
        self.history: list[dict[str, Any]] = []
        self.saved = time.monotonic()

    def finished(self, learner: Learner) -> dict[str, Any] | None:
        """Load the weights of a training that ended here before; what was written about them."""
        if self.folder is None or not (path := self.folder / "weights.safetensors").exists():
            return None
        _, about = read_weights(path)
        self._check(about)
        load_weights(learner, path)
        self.history = read_history(self.folder / "history.jsonl")
        return about

    def resume(self, state: TrainState) -> None:
        """Put the state where the last whole checkpoint stood, if there is one."""
        if self.folder is None:
            return
        if (found := load_checkpoint(self.folder / "checkpoint")) is not None:
            arrays, about = found
            self._check(about)
            unpack(state, arrays, about)
        self.history = cut_history(self.folder / "history.jsonl", state.epoch)

    def due(self) -> bool:
        """Whether it is time for a checkpoint."""
        return self.folder is not None and time.monotonic() - self.saved >= self.seconds

    def save(self, state: TrainState, step: int) -> None:
        """Write a checkpoint."""
        assert self.folder is not None
        arrays, about = pack(state)
        save_checkpoint(self.folder / "checkpoint", step, arrays, {**about, "identity": self.identity})
        self.saved = time.monotonic()

    def note(self, row: dict[str, Any]) -> None:
        """Add a row to the history."""
        self.history.append(row)
        if self.folder is not None:
            append_history(self.folder / "history.jsonl", row)

    def finish(self, learner: Learner, about: Mapping[str, Any]) -> None:
        """Write the final weights; the checkpoints are not needed any more."""
        if self.folder is not None:
            arrays = {name: t.detach().cpu().contiguous().numpy() for name, t in learner.state_dict().items()}
            write_weights(self.folder / "weights.safetensors", arrays, {**about, "identity": self.identity})
            remove_checkpoints(self.folder / "checkpoint")

    def _check(self, about: Mapping[str, Any]) -> None:
        then, now = _flat(about.get("identity", {})), _flat(self.identity)
        odd = [f"{name} was {then.get(name)!r}, is {now.get(name)!r}" for name in now if then.get(name) != now[name]]
        if odd:
            more = f" and {len(odd) - 3} more" if len(odd) > 3 else ""
            raise QuorateError(
                f"{self.folder} holds another training ({'; '.join(odd[:3])}{more}): train as before to go on, "
                "or choose another folder"
            )


@torch.no_grad()
def load_weights(learner: Learner, path: Path) -> None:
    """Read trained weights into a learner, in place.

    Raises:
        QuorateError: they cannot be read, or are those of another network.

    Example:
        >>> from quorate.nets import cascade
        >>> load_weights(cascade([torch.nn.Linear(4, 3)]), Path("/nowhere/w.safetensors"))
        Traceback (most recent call last):
        quorate.errors.QuorateError: /nowhere/w.safetensors: cannot be read: No such file or directory; ...
    """
    arrays, _ = read_weights(path)
    state = learner.state_dict()
    check_shapes(path, arrays, {name: tuple(tensor.shape) for name, tensor in state.items()})
    for name, target in state.items():
        target.copy_(torch.from_numpy(arrays[name]))


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Nested tables as one, names joined by dots."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{above}{name}.") if isinstance(value, Mapping) else {f"{above}{name}": value}
    return flat
