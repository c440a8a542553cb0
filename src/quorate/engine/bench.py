"""Time saved: a committee against the static ensemble, cascades and single learners, measured in one interleaved run.

The rivals run as whole networks without early heads, called plainly; the committee as it answers users. Each batch size
has a fixed set of images; what a call costs is the median of its rounds, and a figure is the mean over the calls, so
that times saved and MACs saved are those of the same images. Normalising the images is part of every call.

Shapes: ``E`` exits, ``K`` learners, ``n`` images, ``B`` batches of them.
This file does not know which backends there are, nor how policies are chosen.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from quorate.engine.answer import Answer
from quorate.engine.committee import Committee
from quorate.engine.inputs import prepare
from quorate.engine.networks import Array
from quorate.engine.timing import Tick, interleaved, per_image, spread
from quorate.squad.protocol import Policy
from quorate.store.timings import Timing, these_versions, this_machine

__all__ = ["OWN", "Bench", "Contender", "Row", "bench"]

STATIC, CASCADE = "static ensemble", "cascade of whole learners"
OWN = "own"
"""What the committee's own policy is called."""


class Contender(NamedTuple):
    """Who runs.

    Attributes:
        backend: its name, for people.
        branches: the committee.
        whole: its learners as networks of one exit, without early heads.
        joined: whether ``whole`` is that, or only the branches one after the other with all their heads.
        racing: the committee with its threads divided between workers, for ``"parallel"``; None: ``branches``.
    """

    backend: str
    branches: Committee
    whole: Committee
    joined: bool = True
    racing: Committee | None = None


class Row(NamedTuple):
    """What was measured of one policy, or rival, at one batch size; all per image.

    Attributes:
        backend: who ran it.
        batch: images a call.
        name: of the policy or rival.
        source: ``"lazy"``, ``"eager"``, ``"parallel"``, or ``"whole"`` for networks without early heads.
        median, p95: milliseconds, over all calls.
        milliseconds: mean over the calls of the median of the rounds.
        macs: really run.
        saved_time, saved_macs: shares of the static ensemble's.
        time_per_macs: the first of them over the second; None where no MACs are saved.
        predicted: milliseconds that the measured branches times ``answer.branches`` make on one device; None for rivals
            and for ``"parallel"``.
        realised: milliseconds saved over those that ``predicted`` promises to save; None where it promises none.
        accuracy: share of right labels, where they are known.
    """

    backend: str
    batch: int
    name: str
    source: str
    median: float
    p95: float
    milliseconds: float
    macs: float
    saved_time: float
    saved_macs: float
    time_per_macs: float | None
    predicted: float | None
    realised: float | None
    accuracy: float | None


@dataclass(frozen=True)
class Bench:
    """All rows, and the milliseconds of every branch.

    Attributes:
        rows: by batch size, backend and rival.
        branches: by backend: batch size: ``[E, K]`` milliseconds per image.
        images: by batch size, how many were run in every round.
        rounds: how many.
    """

    rows: list[Row]
    branches: dict[str, dict[int, Array]]
    images: dict[int, int]
    rounds: int

    def fastest(self, backend: str, name: str) -> dict[int, Row]:
        """By batch size, the source at which a policy took the least time."""
        found: dict[int, Row] = {}
        for row in self.rows:
            if (row.backend, row.name) == (backend, name) and row.source != "whole":
                found[row.batch] = min(found.get(row.batch, row), row, key=lambda one: one.milliseconds)
        return found

    def timing(self, backend: str, device: str, threads: int, real: bool = True) -> Timing:
        """What stays in ``costs.json``: milliseconds of every branch, and the fastest source of the own policy.

        Args:
            backend: whose.
            device: where torch ran.
            threads: of each branch.
            real: whether the images were such that exits mean something; otherwise no source was the fastest.
        """
        fastest = {str(size): row.source for size, row in self.fastest(backend, OWN).items()}
        about = {
            **({"fastest": fastest} if real and fastest else {}),
            "rounds": self.rounds,
            "images": {str(size): count for size, count in self.images.items()},
        }
        branches, where = self.branches[backend], device if backend == "torch" else "cpu"
        return Timing(backend, where, threads, branches, this_machine(), these_versions(), about)

    def as_json(self) -> dict[str, Any]:
        """Ready for ``json.dump``."""
        tables = {b: {str(n): t.tolist() for n, t in sizes.items()} for b, sizes in self.branches.items()}
        return {**asdict(self), "rows": [row._asdict() for row in self.rows], "branches": tables}


def bench(
    contenders: Sequence[Contender],
    images: Any,
    labels: Array | None = None,
    *,
    policies: Mapping[str, Policy],
    cascade: Policy | None = None,
    sources: Sequence[str] = ("lazy", "eager"),
    batches: Sequence[int] = (1, 32, 256),
    rounds: int = 5,
    calls: int = 64,
    tick: Tick | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Bench:
    """Measure everything in turn.

    Args:
        contenders: one for each backend, all of the same learners.
        images: as committees read them, at least as many as the largest batch.
        labels: the truth, where it is known.
        policies: by name, who decides.
        cascade: who decides over whole learners one after the other; None: left out.
        sources: of votes.
        batches: sizes.
        rounds: how often everybody has a turn.
        calls: how many images a round has at least, as far as there are.
        tick: told about the progress.
        clock: in seconds; ``time.thread_time`` where all runs on one thread of a busy machine.

    Example:
        >>> import torch
        >>> from quorate.engine.whole import whole_learners
        >>> from quorate.nets import DARTS_V1, DARTS_V2, DartsLearner
        >>> from quorate.squad import Rule, Static
        >>> learners = [DartsLearner(g, channels=2, cells=3).eval() for g in (DARTS_V1, DARTS_V2)]
        >>> committee = Committee(learners, Rule("mean", 0.5), macs=[[1, 1], [1, 1]])
        >>> whole = Committee(whole_learners(committee.learners), Static(), macs=[[2, 2]])
        >>> rows = bench(
        ...     [Contender("torch", committee, whole)], torch.randn(2, 3, 8, 8), policies={"squad": Rule("mean", 0.0)},
        ...     batches=[2], rounds=1).rows
        >>> [(row.name, row.source) for row in rows]
        [('static ensemble', 'whole'), ('learner 0', 'whole'), ('learner 1', 'whole'),
         ('squad', 'lazy'), ('squad', 'eager')]
    """
    for size in batches:
        if size < 1 or size > len(images):
            raise ValueError(f"a batch must hold 1 to {len(images)} images, as many as there are, got {size}")
    rows: list[Row] = []
    tables: dict[str, dict[int, Array]] = {one.backend: {} for one in contenders}
    counts: dict[int, int] = {}
    for size in batches:
        counts[size] = size * max(1, min(calls, len(images)) // size)
        parts = [slice(start, start + size) for start in range(0, counts[size], size)]
        tasks = {(one.backend, *key): job for one in contenders
                 for key, job in _tasks(one, policies, cascade, sources).items()}  # fmt: skip
        walks = {one.backend: Walk(one.branches, [images[part] for part in parts], clock) for one in contenders}
        answers = {key: [task(images[part]) for part in parts] for key, task in tasks.items()}
        timed: dict[Any, Any] = {
            key: [lambda task=task, part=part: task(images[part]) for part in parts] for key, task in tasks.items()
        }

        def say(what: str, done: int, total: int, size: int = size) -> None:
            if tick is not None:
                tick(f"batch {size}", done + total * batches.index(size), total * len(batches))

        timed |= {(one.backend, "branches"): walks[one.backend].calls for one in contenders}
        taken = interleaved(timed, rounds, say, clock)
        for one in contenders:
            table = walks[one.backend].table(size)
            tables[one.backend][size] = table
            rows += _rows(one, size, taken, answers, table, None if labels is None else labels[: counts[size]])
    return Bench(rows, tables, counts, rounds)


def plain_vote(whole: Committee, images: Any, learners: Sequence[int]) -> Array:
    """``[n, C]``: the mean of whole networks, as one would write it without this library."""
    given = prepare(images, whole.inputs)
    rows = np.arange(given.n)
    networks = whole.networks
    said = [networks.run(k, 0, networks.first(k, given, rows))[1] for k in learners]
    total: Array = said[0]
    for p_nC in said[1:]:
        total = total + p_nC
    return total / len(said)


def _tasks(
    one: Contender, policies: Mapping[str, Policy], cascade: Policy | None, sources: Sequence[str]
) -> dict[tuple[str, str], Callable[[Any], Any]]:
    """By name and source, what answers a batch: an :class:`Answer`, or probabilities for whole networks."""
    num_learners = one.whole.macs.shape[1]

    def votes_of(learners: Sequence[int]) -> Callable[[Any], Any]:
        return lambda batch: plain_vote(one.whole, batch, learners)

    tasks: dict[tuple[str, str], Callable[[Any], Any]] = {(STATIC, "whole"): votes_of(range(num_learners))}
    tasks |= {(f"learner {k}", "whole"): votes_of([k]) for k in range(num_learners) if num_learners > 1}
    if cascade is not None:
        tasks[CASCADE, "whole"] = one.whole.with_policy(cascade)
    for name, policy in policies.items():
        for source in sources:
            committee = (one.racing or one.branches) if source == "parallel" else one.branches
            tasks[name, source] = committee.with_policy(policy, source)  # type: ignore[arg-type]
    return tasks


class Walk:
    """Every branch of a committee on every batch, learner after learner, each timed by itself.

    A branch that ran again and again would find its weights in the caches, which between other branches it does not.
    """

    def __init__(self, committee: Committee, batches: Sequence[Any], clock: Callable[[], float]) -> None:
        """Nothing has run yet."""
        self.committee, self.clock = committee, clock
        self.calls = [partial(self._walk, b, batch) for b, batch in enumerate(batches)]
        self._seconds: dict[tuple[int, int], list[list[float]]] = {}

    def _walk(self, b: int, batch: Any) -> None:
        networks = self.committee.networks
        given = prepare(batch, self.committee.inputs)
        for k in range(networks.present.shape[1]):
            start = state = networks.first(k, given, np.arange(given.n))
            for e in np.flatnonzero(networks.present[:, k]).tolist():
                began = self.clock()
                after, _ = networks.run(k, e, state)
                taken = self.clock() - began
                self._seconds.setdefault((e, k), [[] for _ in self.calls])[b].append(taken)
                state = after if networks.chained else start

    def table(self, size: int) -> Array:
        """``[E, K]`` milliseconds per image; the first round warmed up."""
        table = np.zeros(self.committee.networks.present.shape)
        for (e, k), seconds_BR in self._seconds.items():
            table[e, k] = per_image(1e3 * np.array(seconds_BR)[:, 1:].T, size)
        return table


def _rows(
    one: Contender, size: int, taken: Mapping[Any, Array], answers: Mapping[Any, list[Any]], table: Array,
    labels: Array | None,
) -> list[Row]:  # fmt: skip
    static, whole = per_image(taken[one.backend, STATIC, "whole"], size), float(one.whole.macs.sum())
    rows = []
    for (backend, name, source), said in answers.items():
        if backend != one.backend:
            continue
        times = taken[backend, name, source]
        cost = per_image(times, size)
        n = times.shape[1] * size
        predicted = realised = accuracy = None
        ran = one.whole.macs[0, int(name.removeprefix("learner "))] if name.startswith("learner ") else whole
        if isinstance(said[0], Answer):
            branches = sum(answer.branches for answer in said)
            ran = float((branches * (one.whole if source == "whole" else one.branches).macs).sum() / n)
            if source in ("lazy", "eager"):
                predicted = float((branches * table).sum() / n)
                realised = (static - cost) / (static - predicted) if predicted < static else None
        if labels is not None:
            found = [x.label if isinstance(x, Answer) else x.argmax(1) for x in said]
            accuracy = float((np.concatenate(found) == labels).mean())
        saved = 1 - ran / whole if whole else 0.0
        rows.append(
            Row(
                backend, size, name, source, *spread(times, size), cost, ran, 1 - cost / static, saved,
                (1 - cost / static) / saved if saved > 1e-9 else None, predicted, realised, accuracy,
            )
        )  # fmt: skip
    return rows
