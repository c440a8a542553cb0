"""Bundles in eight bits: the same branches with int8 weights and activations, and what that changes.

ONNX Runtime's static quantisation puts quantise and dequantise nodes around convolutions and linear layers; both
runtimes read such graphs. The ranges come from images of the calibration split, carried through the float32 branches.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples.
This file does not know how policies are tuned: a quantised committee is another committee, so tune it on its own votes.
"""

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quorate.engine.committee import Committee
from quorate.engine.inputs import Prepared, prepare
from quorate.engine.networks import Array, Networks
from quorate.engine.onnx_networks import OnnxNetworks
from quorate.engine.timing import Tick, interleaved, per_image
from quorate.squad.protocol import Policy
from quorate.store.atomic import write_atomic
from quorate.store.bundle import Bundle, read_bundle, write_manifest
from quorate.store.folders import new_folder
from quorate.store.policies import write_policy

__all__ = ["Side", "Sides", "compare_precisions", "quantise_bundle", "with_policy_in"]

OPERATORS = ["Conv", "Gemm", "MatMul"]
"""What is quantised. Quantising pools, sums and concatenations too was a third slower here: see docs/log.md."""

AT_ONCE = 32
LOST = 0.5
"""Points that int8 may lose before it is advised against."""

FASTER = 0.95
"""What share of the float32 time it must not exceed to be recommended."""


def quantise_bundle(
    bundle: str | os.PathLike[str], path: str | os.PathLike[str], images: Any, *, tick: Tick | None = None
) -> None:
    """Write a bundle whose branches compute in int8.

    Args:
        bundle: of float32 branches.
        path: a folder that does not exist, or is empty.
        images: of the calibration split, a few hundred, as the committee reads them: they give the ranges.
        tick: told about the progress.

    Raises:
        ModuleNotFoundError: ``onnx`` or ONNX Runtime is not installed.
        ValueError: no images.
    """
    before = read_bundle(bundle)
    if "precision" in before.about:
        raise ValueError(f"{before.path} is a quantised bundle already: give the one it was made of")
    networks = OnnxNetworks(before, threads=1)
    given = prepare(images, before.inputs)
    if given.n == 0:
        raise ValueError("images must hold at least one, to see between which values activations lie")
    places = [(e, k) for e, k in np.ndindex(networks.present.shape) if networks.present[e, k]]
    with new_folder(path, "bundle") as draft:
        for done, (e, k) in enumerate(places):
            name = before.branches[e][k]
            assert name is not None
            _quantise(before.path / name, draft / name, _reads(networks, given, e, k))
            if tick is not None:
                tick("quantising", done + 1, len(places))
        about = {key: value for key, value in before.about.items() if key != "largest_difference"}
        about |= {"precision": "int8", "calibrated_on": given.n}
        _finish(draft, before, before.policy, about)


def with_policy_in(
    bundle: str | os.PathLike[str], path: str | os.PathLike[str], policy: Policy, about: dict[str, Any]
) -> None:
    """Write the same branches with another policy.

    Args:
        bundle: that holds the branches.
        path: a folder that does not exist, or is empty.
        policy: who decides there.
        about: added to what the bundle says of itself.
    """
    before = read_bundle(bundle)
    with new_folder(path, "bundle") as draft:
        for name in {name for row in before.branches for name in row if name is not None}:
            write_atomic(draft / name, before.data(name))
        _finish(draft, before, policy, {**before.about, **about})


def _finish(draft: Path, before: Bundle, policy: Policy, about: dict[str, Any]) -> None:
    write_policy(policy, draft / "policy.json")
    write_manifest(
        draft, macs=before.macs, classes=before.classes, branches=before.branches, inputs=before.inputs,
        names=before.names, chained=before.chained, about=about,
    )  # fmt: skip


def _reads(networks: Networks, given: Prepared, exit: int, learner: int) -> Iterator[tuple[Array, ...]]:
    """What a branch reads, part by part."""
    begin = int(np.argmax(networks.present[:, learner]))
    for start in range(0, given.n, AT_ONCE):
        part = given.part(start, start + AT_ONCE)
        state = networks.first(learner, part, np.arange(part.n))
        for e in range(begin, exit) if networks.chained else ():
            state, _ = networks.run(learner, e, state)
        yield state


def _quantise(before: Path, after: Path, states: Iterator[tuple[Array, ...]]) -> None:
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    names = [value.name for value in onnx.load(before).graph.input]

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def get_next(self) -> dict[str, Array] | None:
            state = next(states, None)
            return None if state is None else dict(zip(names, state, strict=True))

    level = logging.getLogger().level
    logging.getLogger().setLevel(logging.ERROR)  # it recommends another preparation, of graphs that are prepared
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            quantize_static(
                before, Path(folder) / "graph.onnx", Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, op_types_to_quantize=OPERATORS,
            )  # fmt: skip
            write_atomic(after, (Path(folder) / "graph.onnx").read_bytes())
    finally:
        logging.getLogger().setLevel(level)


class Side(NamedTuple):
    """One precision, judged.

    Attributes:
        accuracy: share of right answers.
        agreement: share of answers that are those of float32.
        macs: mean lazy MACs.
        milliseconds: per image by batch size, lazily.
    """

    accuracy: float
    agreement: float
    macs: float
    milliseconds: dict[int, float]


class Sides(NamedTuple):
    """Both precisions on the same images, in turn."""

    float32: Side
    int8: Side
    samples: int

    @property
    def recommended(self) -> bool:
        """Whether int8 is faster at every batch size, and loses no more than half a point."""
        pairs = [(self.int8.milliseconds[n], t) for n, t in self.float32.milliseconds.items()]
        lost = 100 * (self.float32.accuracy - self.int8.accuracy)
        return lost <= LOST and all(ours <= FASTER * theirs for ours, theirs in pairs)

    @property
    def advice(self) -> str:
        """In a sentence.

        Example:
            >>> fast, slow = Side(0.9, 1.0, 5.0, {1: 1.0}), Side(0.9, 0.99, 5.0, {1: 1.5})
            >>> Sides(fast, slow, 100).advice
            'int8 is not recommended here: 1.50 times the time at batch 1.'
            >>> Sides(slow, fast, 100).advice
            'int8 is recommended here: 0.67 times the time at batch 1.'
        """
        ratios = [
            f"{self.int8.milliseconds[n] / t:.2f} times the time at batch {n}"
            for n, t in self.float32.milliseconds.items()
        ]
        lost = 100 * (self.float32.accuracy - self.int8.accuracy)
        if lost > LOST:
            ratios.insert(0, f"{lost:.2f} points lost")
        return f"int8 is {'' if self.recommended else 'not '}recommended here: {', '.join(ratios)}."

    def as_json(self) -> dict[str, Any]:
        """Ready for ``json.dump``."""
        sides = {
            name: {**side._asdict(), "milliseconds": {str(n): t for n, t in side.milliseconds.items()}}
            for name, side in (("float32", self.float32), ("int8", self.int8))
        }
        return {**sides, "samples": self.samples, "recommended": self.recommended}


def compare_precisions(
    float32: Committee,
    int8: Committee,
    images: Any,
    labels: Array,
    *,
    batches: Sequence[int] = (1, 32),
    rounds: int = 5,
    calls: int = 64,
    tick: Tick | None = None,
) -> Sides:
    """Accuracy, agreement and milliseconds of two committees side by side, each with its own policy.

    Args:
        float32: the one to compare with.
        int8: the other.
        images: that neither was tuned on.
        labels: the truth.
        batches: sizes at which time is taken, in turn.
        rounds: how often.
        calls: how many images a round has at least, as far as there are.
        tick: told about the progress.
    """
    answers = []
    for committee in (float32, int8):
        parts = list(committee.stream(images[i : i + 256] for i in range(0, len(labels), 256)))
        answers.append([np.concatenate([getattr(part, name) for part in parts]) for name in ("label", "lazy_macs")])
    times: list[dict[int, float]] = [{}, {}]

    def say(what: str, done: int, total: int) -> None:
        if tick is not None:
            tick("timing both precisions", done, total)

    for size in batches:
        size = min(size, len(labels))
        count = max(1, min(calls, len(labels)) // size)
        parts_ = [images[i * size : (i + 1) * size] for i in range(count)]
        jobs = {
            side: [lambda one=one, part=part: one(part) for part in parts_] for side, one in enumerate((float32, int8))
        }
        taken = interleaved(jobs, rounds, say)
        for side in (0, 1):
            times[side][size] = per_image(taken[side], size)
    sides = [
        Side(float((said == labels).mean()), float((said == answers[0][0]).mean()), float(cost.mean()), each)
        for (said, cost), each in zip(answers, times, strict=True)
    ]
    return Sides(sides[0], sides[1], len(labels))
