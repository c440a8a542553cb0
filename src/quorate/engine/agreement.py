"""Does the engine answer as the replay of recorded votes says it would?

Both drive the same policy; they may differ only where rounding decides: votes are recorded in half precision, and
networks round otherwise in batches of another size. Whatever else differs is an error, of the file or of ours.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know how anybody decides.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from quorate.engine.committee import Committee
from quorate.errors import QuorateError
from quorate.squad import Outcome, Votes, replay

__all__ = ["Agreement", "agreement"]

ROUNDING = 5e-3
"""How far a recorded probability may lie from one run now: half precision, other batches, another backend."""
PROBED = 64
"""Samples whose votes are run again in any case."""


class Agreement(NamedTuple):
    """What an engine answered, beside the replay.

    Attributes:
        samples: how many were answered by both.
        labels: how many got another answer.
        exits: how many left at another exit.
        differing: how many differ in either.
        unexplained: how many of those differ even from the replay of votes that were run again just now.
        largest: difference between a recorded probability and the same run again.
        accuracy: of the engine's answers.
        lazy_macs: mean of the engine's answers, and
        replayed_lazy_macs: of the replay's.
        ran: ``[E][K]`` how many samples each branch really processed.
        as_counted: whether what ran is exactly what the lazy MACs of the answers say.
    """

    samples: int
    labels: int
    exits: int
    differing: int
    unexplained: int
    largest: float
    accuracy: float
    lazy_macs: float
    replayed_lazy_macs: float
    ran: list[list[int]]
    as_counted: bool


def agreement(
    committee: Committee,
    images: Any,
    votes: Votes,
    outcome: Outcome,
    *,
    batch: int = 256,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> Agreement:
    """Let the engine answer what was replayed, and compare.

    Args:
        committee: its policy is the one that was replayed.
        images: ``[N, ...]``, in the order of the votes.
        votes: recorded.
        outcome: what the replay of the committee's policy said of them.
        batch: how many images the engine answers at a time.
        tell: called with how many samples are done, and of how many.

    Raises:
        QuorateError: the votes are of other networks or images, or the engine and the replay differ beyond rounding.

    Example:
        >>> import torch
        >>> from quorate.nets import cascade
        >>> from quorate.squad import Static
        >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
        >>> images = torch.randn(5, 4)
        >>> votes = committee.record(images, [0, 1, 2, 0, 1])
        >>> agreement(committee, images, votes, replay(votes.probs, votes.macs, Static())).differing
        0
    """
    n = len(votes.labels)
    if len(images) != n:
        raise QuorateError(f"there are {len(images):,} images and votes on {n:,}: record the votes again")
    label, exit, spent = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n)
    ran: Any = np.zeros(committee.macs.shape, np.int64)
    for start in range(0, n, batch):
        part = slice(start, min(n, start + batch))
        answer = committee(images[part])
        label[part], exit[part], spent[part] = answer.label, answer.exit, answer.lazy_macs
        ran += answer.branches
        tell(part.stop, n)
    differs = (label != outcome.label) | (exit != outcome.exit)
    unexplained, largest = _again(committee, images, votes, np.flatnonzero(differs), label, exit)
    found = Agreement(
        samples=n,
        labels=int((label != outcome.label).sum()),
        exits=int((exit != outcome.exit).sum()),
        differing=int(differs.sum()),
        unexplained=unexplained,
        largest=largest,
        accuracy=float((label == votes.labels).mean()),
        lazy_macs=float(spent.mean()),
        replayed_lazy_macs=float(outcome.lazy_macs.mean()),
        ran=ran.tolist(),
        as_counted=bool(np.isclose((ran * committee.macs).sum(), spent.sum())) or committee.source != "lazy",
    )
    _refuse(found)
    return found


def _again(committee: Committee, images: Any, votes: Votes, differing: Any, label: Any, exit: Any) -> tuple[int, float]:
    """Run every branch on those that differ and some more: how many still differ, and how far votes lie off."""
    n = len(votes.labels)
    rows = np.union1d(differing[:4096], np.linspace(0, n - 1, min(n, PROBED)).astype(int))
    part = votes.rows(rows)
    fresh = committee.record(images[rows], part.labels)
    gap = np.abs(np.asarray(fresh.probs, np.float64) - np.asarray(part.probs, np.float64))
    again = replay(
        fresh.probs, votes.macs, committee.policy, order=part.order, present=fresh.present, chained=votes.chained
    )
    odd = (again.label != label[rows]) | (again.exit != exit[rows])
    return int(odd.sum()), float(np.nanmax(gap))


def _refuse(found: Agreement) -> None:
    """Fail loudly where rounding cannot be the reason."""
    if found.largest > ROUNDING:
        raise QuorateError(
            f"recorded votes lie up to {found.largest:.3g} off what the networks say now: they are of other weights or "
            "other images; remove the votes file, and they are recorded again"
        )
    if found.unexplained > max(1, found.samples // 1000):
        raise QuorateError(
            f"the engine and the replay differ on {found.unexplained:,} of {found.samples:,} samples although their "
            "votes agree: a defect in quorate, please report it with the run"
        )
    if not found.as_counted:
        raise QuorateError(
            "the branches that ran are not those that the lazy MACs count: a defect in quorate, please report it"
        )
