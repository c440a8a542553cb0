"""Prove on the sample that a learner made of a network gives what the network gives.

Shapes: ``B`` samples.

This file does not know how the learner came about.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from quorate.nets.learner import Inputs, Learner
from quorate.nets.recording import first_tensor
from quorate.nets.restoring import kept_modes

__all__ = ["prove", "prove_logits"]


def prove(learner: Learner, sample: Inputs, model: nn.Module | None) -> None:
    """Run the learner, whole and branch by branch, and the network, on the sample and on its last row alone.

    Args:
        learner: what was made.
        sample: what it reads; it is not changed.
        model: the network, where what the last head reads must be what the network gives.

    Raises:
        ValueError: if logits are not ``[B, classes]``, or something differs; the message says what to do.
    """
    state = learner.first_state(sample)
    if any(t.is_meta for t in (*learner.parameters(), *state)):
        return
    body = learner.branches[-1].get_submodule("body")
    given: list[Tensor] = []
    handle = body.register_forward_hook(lambda module, args, out: given.append(out[-1]))
    alone = _last_row(state)
    with kept_modes((*learner.modules(), *(() if model is None else model.modules()))), torch.no_grad():
        learner.eval()
        try:
            whole = prove_logits(learner, state)
            _check_branches(learner, state, whole)
            _check_branches(learner, alone, [logits[-1:] for logits in whole])
        finally:
            handle.remove()
        if model is not None:
            model.eval()
            _check_close(first_tensor(_called(model, sample, state)), given[0])
            _check_close(first_tensor(_called(model, sample, alone)), given[-1])


def prove_logits(learner: Learner, state: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The logits of every exit in evaluation, of which there must be one per class.

    Raises:
        ValueError: if they are not ``[B, classes]``.
    """
    with kept_modes(learner.modules()), torch.no_grad():
        logits: tuple[Tensor, ...] = _ran(learner.eval(), [tensor.clone() for tensor in state])
    for exit_, given in enumerate(logits):
        shape = tuple(given.shape) if isinstance(given, Tensor) else type(given).__name__
        if shape != (len(state[0]), learner.classes):
            raise ValueError(
                f"the logits of exit {exit_} must have shape {(len(state[0]), learner.classes)}, samples by classes, "
                f"got {shape}; pass heads= that give one value per class, or the number of classes the network has"
            )
    return logits


def _last_row(state: Sequence[Tensor]) -> list[Tensor]:
    """Gathered, as an engine does: a slice would share memory."""
    return [tensor[torch.tensor([len(tensor) - 1], device=tensor.device)] for tensor in state]


def _called(model: nn.Module, sample: Inputs, state: Sequence[Tensor]) -> Any:
    copies = [t.clone() for t in state]
    return model(**dict(zip(sample, copies, strict=True))) if isinstance(sample, Mapping) else model(*copies)


def _ran(run: Callable[..., Any], state: Sequence[Tensor]) -> Any:
    try:
        return run(*state)
    except (RuntimeError, TypeError, IndexError) as error:
        raise ValueError(
            f"the cut network does not run on the sample: {error}; a head may not fit what it reads (pass heads=), or "
            "its forward pass works in a context that a cut loses, such as autocast (pass its stages yourself)"
        ) from error


def _check_branches(learner: Learner, state: Sequence[Tensor], whole: Sequence[Tensor]) -> None:
    """Branch by branch, with one row from the first cut on."""
    for branch, logits in zip(learner.branches, whole, strict=True):
        *after, vote = _ran(branch, [tensor.clone() for tensor in state])
        _check_close(logits[-vote.shape[0] :], vote)
        state = _last_row(after)


def _check_close(wanted: Any, got: Tensor) -> None:
    close = (
        {"rtol": 2e-2, "atol": 2e-2} if got.dtype in (torch.float16, torch.bfloat16) else {"rtol": 1e-3, "atol": 1e-4}
    )
    if wanted.shape != got.shape or not torch.allclose(wanted, got.to(wanted.dtype), equal_nan=True, **close):
        raise ValueError(
            "the cut network does not give what the network gives: its forward pass does something that calls do not "
            "show, or mixes samples; pass its stages yourself: attach_exits([stage, ...], ...)"
        )
