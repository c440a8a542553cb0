"""Committees: learners, a policy and the cost table, which a user builds or loads, and calls.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples, ``C`` classes.
This file does not know how branches run, nor how anybody decides.
"""

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quorate.engine.answer import Answer
from quorate.engine.inputs import prepare
from quorate.engine.networks import Array, Networks
from quorate.engine.progress import Fault, Progress
from quorate.engine.sources import Eager, Lazy
from quorate.squad.candidates import FAMILIES
from quorate.squad.checks import check_macs, check_order
from quorate.squad.cost import costs
from quorate.squad.loop import drive
from quorate.squad.protocol import Lattice, Policy
from quorate.squad.replaying import outcome_of
from quorate.squad.tuning import Tuned, Wish
from quorate.squad.tuning import tune as tune_votes
from quorate.squad.votes import Votes
from quorate.store.run import InputSpec
from quorate.store.timings import Timing, best_fit

if TYPE_CHECKING:
    import os

    from quorate.nets.learner import Learner

__all__ = ["Committee"]

SOURCES: dict[str, type[Lazy]] = {"lazy": Lazy, "eager": Eager}
RECORDED_AT_ONCE = 256


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
        source: ``"lazy"`` runs what a vote needs; ``"eager"`` runs whole exits, in fewer and larger batches.
        device: where learners run.
        compiled: whether branches go through ``torch.compile``.
        timings: what was measured of these branches, see ``quorate bench``.

    Attributes:
        milliseconds: ``[E, K]`` by batch size, per image, of the measurement that fits best; None: not measured.
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
        source: Literal["lazy", "eager"] = "lazy",
        device: Any = "cpu",
        compiled: bool = False,
        timings: Sequence[Timing] = (),
    ) -> None:
        """See the class."""
        if not callable(getattr(policy, "tell", None)):
            raise TypeError(f"policy must be a policy such as Rule() or Static(), got {policy!r:.60}")
        if source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
        self.learners: tuple[Any, ...] | None = None
        self.networks: Networks
        if isinstance(learners, Sequence):
            from quorate.engine.torch_networks import TorchNetworks

            self.learners = tuple(learners)
            self.networks = TorchNetworks(self.learners, device=device, compiled=compiled)
        else:
            self.networks = learners
        num_exits, num_learners = self.networks.present.shape
        self.inputs = _one_each(inputs, num_learners)
        self.classes = tuple(map(str, range(self.networks.classes) if classes is None else classes))
        if len(self.classes) != self.networks.classes:
            raise ValueError(f"classes must name {self.networks.classes} classes, got {len(self.classes)}")
        table = self._counted() if macs is None else macs
        self.macs = check_macs(table, num_exits, num_learners)
        if (self.macs[~self.networks.present] != 0).any():
            raise ValueError("macs must be 0 where a learner has no branch: it costs nothing there")
        self.policy, self.source, self.compiled = policy, source, compiled
        self.tuned: Tuned | None = None
        self.timings = tuple(timings)
        fit = best_fit(self.timings, self.networks.backend, self.networks.threads)
        self.milliseconds = None if fit is None else dict(fit.milliseconds)
        for size, measured in (self.milliseconds or {}).items():
            if measured.shape != self.macs.shape:
                raise ValueError(
                    f"milliseconds at batch size {size} must be for {list(self.macs.shape)} branches, "
                    f"got {list(measured.shape)}"
                )

    @property
    def lattice(self) -> Lattice:
        """What the policy knows of this committee."""
        like = np.empty((0, self.networks.classes), dtype=np.float32)
        order = check_order(None, self.macs, 0)
        return Lattice(self.macs, order, self.networks.classes, like, self.networks.chained)

    def __call__(self, images: Any) -> Answer:
        """Answer a batch of any size.

        Args:
            images: ``[N, C, H, W]`` or ``[N, H, W, C]``, uint8 in 0..255 or floats in 0..1, numpy or torch; or a list
                of pictures or arrays. Without ``inputs``: tensors that the learners read, also by name.

        Warns:
            RuntimeWarning: a learner failed; the others decided. ``answer.faults`` says more.

        Raises:
            ValueError: for inputs that are not what they must be, and where no sample at all could be answered.
        """
        given, lattice = prepare(images, self.inputs), self.lattice
        source = SOURCES[self.source](self.networks, given, given.n, lattice.order)
        verdict, ran = drive(self.policy, source, given.n, lattice)
        staged = verdict.pivot is not None
        cost = costs(verdict.waited, verdict.cast, verdict.asks, self.macs, staged, self.networks.chained)
        outcome = outcome_of(verdict, cost)
        _tell(source.faults)
        if given.n and (outcome.label < 0).all():
            reasons = "; ".join(map(str, source.faults)) or "the branches asked for do not exist"
            raise ValueError(f"none of the {given.n} samples could be answered: {reasons}")
        typed = outcome._replace(confidence=outcome.confidence.astype(outcome.probs.dtype))
        return Answer(*typed, ran, source.faults)

    def stream(self, batches: Iterable[Any]) -> Iterator[Answer]:
        """Answer batch after batch, of any iterable; no more than one is in memory.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> [len(answer.label) for answer in committee.stream([torch.randn(2, 4), torch.randn(1, 4)])]
            [2, 1]
        """
        for images in batches:
            yield self(images)

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

    def with_policy(self, policy: Policy, source: Literal["lazy", "eager"] | None = None) -> "Committee":
        """The same networks with another policy, or another source.

        Example:
            >>> import torch
            >>> from quorate.nets import cascade
            >>> from quorate.squad import Cascade, Static
            >>> committee = Committee([cascade([torch.nn.Linear(4, 3)])], Static(), macs=[[12]])
            >>> committee.with_policy(Cascade(0.8)).policy
            Cascade(threshold=0.8)
        """
        if source is not None and source not in SOURCES:
            raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")
        other = copy.copy(self)
        other.policy, other.source, other.tuned = policy, source or self.source, None
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
        return other

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Write a run that :func:`quorate.load` reads back: weights, policy, costs, inputs; see :func:`save_run`.

        Args:
            path: a folder that does not exist, or is empty. Networks of your own need ``build=`` on loading.
        """
        from quorate.engine.saving import save_run

        save_run(self, path)

    def export(self, path: "str | os.PathLike[str]", format: str = "onnx", *, sample: Any = None) -> None:
        """Write a bundle that needs neither torch nor this code's networks to run; see :func:`export_bundle`.

        Args:
            path: a folder that does not exist, or is empty.
            format: ``"onnx"``, one graph per branch.
            sample: inputs to trace with, where the committee has no ``inputs``.
        """
        if format != "onnx":
            raise ValueError(f"format must be 'onnx', got {format!r}")
        from quorate.engine.export import export_bundle

        export_bundle(self, path, sample=sample)

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


def _one_each(inputs: InputSpec | Sequence[InputSpec | None] | None, num_learners: int) -> tuple[InputSpec | None, ...]:
    if inputs is None or isinstance(inputs, InputSpec):
        return (inputs,) * num_learners
    if len(inputs) != num_learners:
        raise ValueError(f"inputs must be one for all or one for each of {num_learners} learners, got {len(inputs)}")
    return tuple(inputs)


def _tell(faults: Sequence[Fault]) -> None:
    for fault in faults:
        warnings.warn(str(fault), RuntimeWarning, stacklevel=3)
