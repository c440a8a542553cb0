"""Committees: learners, a policy and the cost table, which a user builds or loads, and calls.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes.
This file does not know how branches run, nor how anybody decides.
"""

import copy
import math
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from quorate.engine.answer import Answer
from quorate.engine.choices import SOURCES, SourceName, check_policy, check_source, one_each
from quorate.engine.inputs import Prepared, prepare
from quorate.engine.networks import Array, Networks
from quorate.engine.parallel import Arrival, Deadline
from quorate.engine.placement import place, usable_cores
from quorate.engine.progress import Fault, Progress
from quorate.engine.sources import Eager, Lazy
from quorate.engine.workers import Crew
from quorate.squad.candidates import FAMILIES
from quorate.squad.checks import check_macs, check_order
from quorate.squad.cost import costs
from quorate.squad.loop import drive_until
from quorate.squad.priced import Priced
from quorate.squad.protocol import Lattice, Policy
from quorate.squad.replaying import outcome_of
from quorate.squad.tuning import Tuned, Wish
from quorate.squad.tuning import tune as tune_votes
from quorate.squad.votes import Votes
from quorate.store.run import InputSpec
from quorate.store.timings import Timing, best_fit, this_machine

if TYPE_CHECKING:
    import os

    from quorate.nets.learner import Learner

__all__ = ["Committee"]

RECORDED_AT_ONCE = 256
_MUSTERING = threading.Lock()  # two first calls at once shall have one crew


class Committee:
    """Call it with images; it runs what the vote needs and nothing else.

    Calls share nothing that changes, so many threads may call one committee.

    Args:
        learners: learners of :mod:`quorate.nets`, of which a snapshot is taken, or any
            :class:`quorate.engine.Networks`.
        policy: who decides.
        macs: ``[E, K]`` incremental cost of each branch; None: counted, which needs ``inputs``.
        classes: names of the classes; None: their numbers.
        inputs: how learners see images, one :class:`InputSpec` for all or one each; None: tensors are passed on as
            they are.
        source: ``"lazy"`` runs what a vote needs; ``"eager"`` runs whole exits, in fewer and larger batches;
            ``"parallel"`` runs learners at once, counts votes as they arrive and stops what is no longer needed;
            ``"auto"`` is for each call the one that ``quorate bench`` found the fastest here at the batch size nearest.
        workers: how many learners ``"parallel"`` runs at once; None: one for each core, if there are so many learners.
        racing: the same branches on the threads that ``"parallel"`` shall use; None: those of ``learners``.
        device: where learners run.
        compiled: whether branches go through ``torch.compile``.
        timings: what was measured of these branches, see ``quorate bench``.

    Attributes:
        tuned: what :meth:`tune` promised, None before it.

    Raises:
        ValueError: where sizes do not fit together; the message says which.

    Example:
        >>> import torch
        >>> from quorate.engine import Committee
        >>> from quorate.nets import cascade
        >>> from quorate.squad import Rule
        >>> _ = torch.manual_seed(0)
        >>> learners = [cascade([torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)]) for _ in range(3)]
        >>> committee = Committee(learners, Rule("mean", 0.5), macs=[[1, 1, 1], [2, 2, 2]])
        >>> answer = committee(torch.randn(5, 4))
        >>> answer.label.shape, bool((answer.branches * committee.macs).sum() == answer.lazy_macs.sum())
        ((5,), True)
    """

    def __init__(
        self,
        learners: "Sequence[Learner] | Networks",
        policy: Policy,
        macs: Any = None,
        *,
        classes: Sequence[str] | None = None,
        inputs: InputSpec | Sequence[InputSpec | None] | None = None,
        source: SourceName = "lazy",
        workers: int | None = None,
        racing: Networks | None = None,
        device: Any = "cpu",
        compiled: bool = False,
        timings: Sequence[Timing] = (),
    ) -> None:
        """See the class."""
        check_policy(policy)
        check_source(source)
        self.learners: tuple[Any, ...] | None = None
        self.networks: Networks
        if isinstance(learners, Sequence):
            from quorate.engine.torch_networks import TorchNetworks

            self.learners = tuple(learners)
            self.networks = TorchNetworks(self.learners, device=device, compiled=compiled)
        else:
            if not hasattr(learners, "present"):
                raise TypeError(f"learners must be a list of them, or networks, got {type(learners).__name__}")
            self.networks = learners
        num_exits, num_learners = self.networks.present.shape
        self.inputs = one_each(inputs, num_learners)
        self.classes = tuple(map(str, range(self.networks.classes) if classes is None else classes))
        if len(self.classes) != self.networks.classes:
            raise ValueError(f"classes must name {self.networks.classes} classes, got {len(self.classes)}")
        table = self._counted() if macs is None else macs
        self.macs = check_macs(table, num_exits, num_learners)
        if (self.macs[~self.networks.present] != 0).any():
            raise ValueError("macs must be 0 where a learner has no branch: it costs nothing there")
        self.policy, self.source, self.compiled = policy, source, compiled
        self.workers = place(self.macs, usable_cores(), workers).workers
        self.tuned: Tuned | None = None
        self._racing = racing or self.networks
        if not np.array_equal(self._racing.present, self.networks.present):
            raise ValueError("racing must be the same branches as those of learners")
        self._crew: Crew | None = None
        self._asked: tuple[Policy, Array] | None = None
        self.timings = tuple(timings)
        for one in self.timings:
            if (measured := next(iter(one.milliseconds.values())).shape) != self.macs.shape:
                raise ValueError(f"timings must be of {list(self.macs.shape)} branches, got {list(measured)}")
        self._warn_of_auto(3)

    @property
    def milliseconds(self) -> dict[int, Array] | None:
        """``[E, K]`` by batch size, per image, of the measurement that fits best; None: not measured."""
        fit = self._fit(self.timings)
        return None if fit is None else dict(fit.milliseconds)

    @cached_property
    def lattice(self) -> Lattice:
        """What the policy knows of this committee; the voting order is that of its own costs where it brings some."""
        like = np.empty((0, self.networks.classes), dtype=np.float32)
        order = check_order(None, np.asarray(self.policy.costs) if isinstance(self.policy, Priced) else self.macs, 0)
        return Lattice(self.macs, order, self.networks.classes, like, self.networks.chained)

    @property
    def crew(self) -> Crew:
        """The workers of ``"parallel"``; its ``stops`` say what stopping saved."""
        if self._crew is None:
            with _MUSTERING:
                self._crew = self._crew or Crew(self._racing, self.workers)
        return self._crew

    def __call__(self, images: Any, deadline_ms: float | None = None) -> Answer:
        """Answer a batch of any size.

        Args:
            images: ``[N, C, H, W]`` or ``[N, H, W, C]``, uint8 in 0..255 or floats in 0..1, numpy or torch; or a list
                of pictures or arrays. Without ``inputs``: tensors that the learners read, also by name.
            deadline_ms: after this time every sample gets the best answer so far, ``answer.late`` where it still wanted
                votes: label -1 where there was none yet. ``"parallel"`` is on time; ``"lazy"`` and ``"eager"`` look at
                the clock after every vote, so that they are late by a branch, or by those that catch up.

        Warns:
            RuntimeWarning: a learner failed; the others decided. ``answer.faults`` says more.

        Raises:
            ValueError: for inputs that are not what they must be, and where no sample at all could be answered, other
                than for want of time.
        """
        deadline = Deadline(deadline_ms)
        given, lattice = prepare(images, self.inputs), self.lattice
        source = self._source(given, lattice, deadline)
        try:
            verdict, ran, late = drive_until(self.policy, source, given.n, lattice, deadline.passed)
        finally:
            source.close()
        staged = verdict.pivot is not None
        cost = costs(verdict.waited, verdict.cast, verdict.asks, self.macs, staged, self.networks.chained)
        outcome = outcome_of(verdict, cost)
        _tell(source.faults)
        if given.n and (outcome.label < 0).all() and not late.any():
            reasons = "; ".join(map(str, source.faults)) or "the branches asked for do not exist"
            raise ValueError(f"none of the {given.n} samples could be answered: {reasons}")
        typed = outcome._replace(confidence=outcome.confidence.astype(outcome.probs.dtype))
        return Answer(*typed, ran, source.faults, late, source.arrival, source.absent)

    def _source(self, given: Prepared, lattice: Lattice, deadline: Deadline) -> Lazy | Arrival:
        name = self.source if self.source != "auto" else self.fastest(given.n)
        if name != "parallel":
            kind = {"lazy": Lazy, "eager": Eager}[name]
            return kind(self.networks, given, given.n, lattice.order)
        if self._asked is None or self._asked[0] is not self.policy:
            self._asked = self.policy, self.policy.verdict(self.policy.start(1, lattice)).asks
        return Arrival(self._racing, given, given.n, self.macs, self.crew, self._asked[1], deadline)

    def fastest(self, batch: int) -> str:
        """The source that was the fastest here at the batch size nearest, ``"lazy"`` where none was measured.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]]).fastest(32)
            'lazy'
        """
        known = self._fastest_here()
        nearest = min(known, key=lambda size: abs(math.log(size / max(batch, 1))), default=None)
        return "lazy" if nearest is None else known[nearest]

    def _fastest_here(self) -> dict[int, str]:
        fit = self._fit(one for one in self.timings if one.fastest and dict(one.hardware) == this_machine())
        known = {} if fit is None else fit.fastest
        return {size: name for size, name in known.items() if name in SOURCES and name != "auto"}

    def _fit(self, timings: Iterable[Timing]) -> Timing | None:
        here = self.networks
        return best_fit(timings, here.backend, str(here.device), here.threads)

    def _warn_of_auto(self, level: int) -> None:
        if self.source == "auto" and not self._fastest_here():
            said = "nobody measured here which source is the fastest, so it is lazy: run `quorate bench`"
            warnings.warn(said, UserWarning, stacklevel=level)

    def stream(self, batches: Iterable[Any], deadline_ms: float | None = None) -> Iterator[Answer]:
        """Answer batch after batch, of any iterable; no more than one is in memory. The deadline is that of each.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> [len(answer.label) for answer in committee.stream([torch.randn(2, 4), torch.randn(1, 4)])]
            [2, 1]
        """
        for images in batches:
            yield self(images, deadline_ms)

    def record(self, images: Any, labels: Any) -> Votes:
        """Run everything, and record what every branch says: what policies are tuned and compared on.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> committee.record(torch.randn(2, 4), [0, 2]).probs.shape
            (1, 1, 2, 3)
        """
        given = prepare(images, self.inputs)
        truth = np.asarray(labels, dtype=np.int64)
        if truth.shape != (given.n,):
            raise ValueError(f"labels must be one for each of {given.n} samples, got shape {list(truth.shape)}")
        num_exits, num_learners = self.networks.present.shape
        probs = np.full((num_exits, num_learners, given.n, self.networks.classes), np.nan, dtype=np.float32)
        for start in range(0, given.n, RECORDED_AT_ONCE):
            part = given.part(start, start + RECORDED_AT_ONCE)
            progress = Progress(self.networks, part, part.n)
            for e, k in np.ndindex(num_exits, num_learners):
                probs[e, k, start : start + part.n] = progress.advance(k, e, np.arange(part.n))
            _tell(progress.faults)
        there = ~np.isnan(probs[..., 0])
        present = None if there.all() else there
        return Votes(
            probs, truth, self.macs, present=present, chained=self.networks.chained, milliseconds=self.milliseconds,
            metadata={"classes": list(self.classes)},
        )  # fmt: skip

    def with_policy(self, policy: Policy, source: SourceName | None = None) -> "Committee":
        """The same networks with another policy, or another source.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Cascade, Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> committee.with_policy(Cascade(0.8)).policy
            Cascade(threshold=0.8)
        """
        check_policy(policy)
        check_source(source or self.source)
        other = copy.copy(self)
        other.__dict__.pop("lattice", None)  # its order may be the old policy's own
        other.policy, other.source, other.tuned = policy, source or self.source, None
        other._crew = self.crew if other.source in ("parallel", "auto") else self._crew
        if source is not None:
            other._warn_of_auto(3)
        return other

    def tune(
        self,
        images: Any,
        labels: Any,
        wish: Wish | None = None,
        *,
        policies: Sequence[str] = FAMILIES,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> "Committee":
        """The same networks with the policy that fits a wish best on calibration images.

        Args:
            images: that no learner was trained on.
            labels: the truth.
            wish: what may be lost and what is to be saved; see :func:`quorate.squad.tune`.
            policies: families to choose among.
            progress: called with what is being done, the steps done, and of how many.

        Returns:
            A committee; its ``tuned`` says what was chosen, and what that promises.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> _ = torch.manual_seed(0)
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)]) for _ in "ab"], Static(), macs=[[12, 12]])
            >>> images, labels = torch.randn(60, 4), torch.arange(60) % 3
            >>> committee.tune(images, labels, Wish(max_drop=50), policies=["cascade"]).tuned.kept
            True
        """
        tuned = tune_votes(self.record(images, labels), wish, policies, progress)
        other = self.with_policy(tuned.policy)
        other.tuned = tuned
        return other

    def to(self, device: Any) -> "Committee":
        """The same committee on another device.

        Raises:
            ValueError: for networks that are not of torch; they run where they were loaded.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> committee.to("cpu").networks.device
            device(type='cpu')
        """
        if self.learners is None:
            raise ValueError(
                "only a committee of torch learners can move; load a bundle for the device it shall run on"
            )
        from quorate.engine.torch_networks import TorchNetworks

        other = copy.copy(self)
        other.networks = TorchNetworks(self.learners, device=device, compiled=self.compiled)
        other._racing, other._crew = other.networks, None
        return other

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write a run that :func:`quorate.load` reads back: weights, policy, costs, inputs; see :func:`save_run`.

        Args:
            path: a folder that does not exist, or is empty. Networks of your own need ``build=`` on loading.
        """
        from quorate.engine.saving import save_run

        save_run(self, path)

    def export(
        self,
        path: "str | os.PathLike[str]",
        format: str = "onnx",
        *,
        sample: Any = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Write a bundle that needs neither torch nor this code's networks to run; see :func:`export_bundle`.

        Args:
            path: a folder that does not exist, or is empty.
            format: ``"onnx"``, one graph per branch.
            sample: inputs to trace with, where the committee has no ``inputs``.
            progress: called with what is being done, the steps done, and of how many.
        """
        if format != "onnx":
            raise ValueError(f"format must be 'onnx', got {format!r}")
        from quorate.engine.export import export_bundle

        export_bundle(self, path, sample=sample, tick=progress)

    def _counted(self) -> Array:
        if self.learners is None or any(spec is None for spec in self.inputs):
            raise ValueError(
                "macs can be counted where learners and inputs are given: pass inputs=InputSpec(...) or macs="
            )
        from quorate.nets.macs import count_macs

        table = np.zeros(self.networks.present.shape)
        for k, (learner, spec) in enumerate(zip(self.learners, self.inputs, strict=True)):
            assert spec is not None
            shape = (spec.channels, spec.height, spec.width)
            counts = count_macs(copy.deepcopy(learner), shape)  # counting moves buffers; the learner is the user's
            table[len(table) - len(counts) :, k] = counts
        return table


def _tell(faults: Sequence[Fault]) -> None:
    for fault in faults:
        warnings.warn(str(fault), RuntimeWarning, stacklevel=3)
