"""What racing costs and saves: latency, stopping, prediction, OpenVINO and int8, all in turn on the same images.

    python -m benchmarks.parallel BUNDLE IMAGES.npz [--int8 BUNDLE] [--parts latency stopping predicted runtimes]

``IMAGES.npz`` holds ``images`` ``[N, H, W, C]`` uint8 and ``labels``. Each image has several turns; a figure is the
median over images of the median (and of the fastest) turn, because other programs share the cores.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import quorate
from quorate.engine import Committee
from quorate.engine.answer import Answer
from quorate.engine.inputs import prepare
from quorate.engine.loading import open_networks
from quorate.engine.timing import interleaved
from quorate.squad import Policy, Rule, Soft, costs, drive
from quorate.squad.loop import Recorded
from quorate.store.bundle import read_bundle

Array = np.ndarray[Any, Any]


def committee_of(
    bundle: str, learners: Sequence[int], policy: Policy, source: Any, backend: str, workers: int
) -> Committee:
    """Some learners of a bundle, each branch on one thread."""
    read = read_bundle(bundle)
    some = replace(
        read, branches=tuple(tuple(row[k] for k in learners) for row in read.branches),
        inputs=tuple(read.inputs[k] for k in learners), names=tuple(read.names[k] for k in learners),
    )  # fmt: skip
    return Committee(
        open_networks(some, backend, 1), policy, read.macs[:, list(learners)], classes=read.classes,
        inputs=some.inputs, source=source, workers=workers,
    )  # fmt: skip


def alone(committee: Committee, image: Array, learner: int, exit: int) -> Callable[[], Any]:
    """One learner through an exit, as one would write it without this library."""

    def run() -> Any:
        given = prepare(image, committee.inputs)
        state = committee.networks.first(learner, given, np.arange(1))
        for e in range(exit + 1):
            state, probs = committee.networks.run(learner, e, state)
        return int(probs.argmax())

    return run


def pivot_of(committee: Committee, answer: Answer) -> int:
    """The learner whose vote settled the last stage."""
    e = int(answer.exit[0])
    return int(committee.lattice.order[e, max(int(answer.pivot[e, 0]), 0), 0])


def latency(bundle: str, images: Array, rounds: int, backend: str) -> None:
    """Parallel against the pivot learner alone on one thread, at batch 1."""
    for learners in ((0, 2), (0, 1, 2)):
        for policy in (Rule("mean", 0.5), Rule("mean", 0.8)):
            racing = committee_of(bundle, learners, policy, "parallel", backend, min(2, len(learners)))
            lazy = racing.with_policy(policy, "lazy")
            jobs: dict[str, list[Callable[[], Any]]] = {"pivot": [], "parallel": [], "lazy": []}
            exits = []
            for i in range(len(images)):
                image = images[i : i + 1]
                answer = lazy(image)
                exits.append(int(answer.exit[0]))
                jobs["pivot"].append(alone(lazy, image, pivot_of(lazy, answer), exits[-1]))
                jobs["parallel"].append(partial(racing, image))
                jobs["lazy"].append(partial(lazy, image))
            taken = interleaved(jobs, rounds)
            medians = {name: np.median(t, axis=0) for name, t in taken.items()}
            fastest = {name: t.min(axis=0) for name, t in taken.items()}
            share = np.bincount(exits, minlength=3) / len(exits)
            stops = racing.crew.stops
            print(
                f"{len(learners)} learners, {policy}, exits {share.round(2).tolist()}: "
                + ", ".join(f"{name} {np.median(t):.3f} ms" for name, t in medians.items())
                + f"; parallel / pivot: by medians {np.median(medians['parallel']) / np.median(medians['pivot']):.2f}, "
                f"by fastest turns {np.median(fastest['parallel']) / np.median(fastest['pivot']):.2f}; "
                f"parallel / lazy {np.median(fastest['parallel']) / np.median(fastest['lazy']):.2f} (fastest turns); "
                f"{stops.stopped} branches stopped, {stops.saved_ms:.0f} ms saved"
            )


def stopping(bundle: str, images: Array, calls: int, backend: str) -> None:
    """How soon a core is free after its branch was told to stop, on large batches; and the longest operator."""
    policy = Soft("arrival", 0.0)  # decided by the first vote that arrives
    racing = committee_of(bundle, (0, 1, 2), policy, "parallel", backend, 2)
    for size in (1, 128):
        racing._crew = None
        racing(images[:size])
        taken = interleaved({k: [partial(_branch, racing, images[:size], k)] for k in range(3)}, 3)
        for _ in range(calls):
            racing(images[:size])
            while racing.crew._busy:
                time.sleep(1e-3)
        freed = sorted(racing.crew.stops.freed_ms)
        longest = _longest_operator(bundle, images[:size]) if backend == "onnxruntime" else float("nan")
        branches = ", ".join(f"{np.median(taken[k]):.0f}" for k in range(3))
        if freed:
            print(
                f"batch {size}, first branches {branches} ms: {len(freed)} stopped, free after a median of "
                f"{statistics.median(freed):.2f} ms, 95th percentile {np.percentile(freed, 95):.2f}, latest "
                f"{freed[-1]:.2f}; longest operator {longest:.1f} ms; "
                f"saved {racing.crew.stops.saved_ms / calls:.1f} ms a call"
            )


def _branch(committee: Committee, images: Array, k: int) -> None:
    given = prepare(images, committee.inputs)
    committee.networks.run(k, 0, committee.networks.first(k, given, np.arange(given.n)))


def _longest_operator(bundle: str, images: Array) -> float:
    import onnxruntime

    read, longest = read_bundle(bundle), 0.0
    for k in range(len(read.branches[0])):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.enable_profiling, options.log_severity_level = 1, True, 3
        options.profile_file_prefix = f"/tmp/quorate-profile-{os.getpid()}"
        session = onnxruntime.InferenceSession(read.data(str(read.branches[0][k])), options, ["CPUExecutionProvider"])
        given = prepare(images, read.inputs).of(k, np.arange(len(images)))
        for _ in range(3):
            session.run(None, {session.get_inputs()[0].name: given})
        file = session.end_profiling()
        with open(file) as text:
            times = [event["dur"] / 1e3 for event in json.load(text) if event.get("cat") == "Node"]
        os.unlink(file)
        longest = max(longest, statistics.median(sorted(times)[-3:]))
    return longest


def predicted(bundle: str, images: Array, rounds: int, backend: str) -> None:
    """Free-running latency by measured milliseconds of branches, against the clock, image by image."""
    policy, learners = Rule("mean", 0.8), (0, 2)
    racing = committee_of(bundle, learners, policy, "parallel", backend, 2)
    lazy = racing.with_policy(policy, "lazy")
    jobs: dict[Any, list[Callable[[], Any]]] = {
        "parallel": [partial(racing, images[i : i + 1]) for i in range(len(images))]
    }
    given = prepare(images[:1], racing.inputs)
    for k in range(len(learners)):
        state = lazy.networks.first(k, given, np.arange(1))
        for e in range(len(lazy.macs)):
            jobs[e, k] = [partial(lazy.networks.run, k, e, state)] * 20
            state, _ = lazy.networks.run(k, e, state)
    taken = interleaved(jobs, rounds)
    table = np.array([[np.median(taken[e, k]) for k in range(len(learners))] for e in range(len(lazy.macs))])
    votes = lazy.record(images, np.zeros(len(images)))
    verdict, _ = drive(policy, Recorded(votes.probs), len(images), lazy.lattice)
    free = costs(verdict.waited, verdict.cast, verdict.asks, table, True, True).free_running_macs
    ratio = np.median(taken["parallel"], axis=0) / free
    low, middle, high = np.percentile(ratio, [5, 50, 95])
    over = np.median(np.median(taken["parallel"], axis=0) - free)
    print(
        f"free-running latency, {len(images)} images, branches {table.round(2).tolist()} ms: measured over predicted "
        f"{middle:.2f} (5th to 95th percentile {low:.2f} to {high:.2f}), {over:.2f} ms more in the median"
    )


def runtimes(bundle: str, eight: str | None, images: Array, labels: Array, rounds: int, threads: int) -> None:
    """ONNX Runtime against OpenVINO, float32 against int8: lazy, with each bundle's own policy."""
    bundles = {"float32": bundle} | ({"int8": eight} if eight else {})
    committees = {
        (backend, precision): quorate.load(path, backend=backend, threads=threads)
        for precision, path in bundles.items() for backend in ("onnxruntime", "openvino")
    }  # fmt: skip
    for key, committee in committees.items():
        said = np.concatenate([committee(images[i : i + 256]).label for i in range(0, len(images), 256)])
        print(f"{key}: {committee.policy}, {100 * (said == labels).mean():.2f} % of {len(labels)} right")
    for size, count in ((1, 64), (32, 4), (256, 1)):
        jobs = {
            key: [partial(c, images[b * size : (b + 1) * size]) for b in range(count)] for key, c in committees.items()
        }
        taken = interleaved(jobs, rounds)
        base = np.median(taken["onnxruntime", "float32"], axis=0).mean()
        print(f"batch {size}: " + ", ".join(
            f"{'/'.join(key)} {time_ / size:.3f} ms an image ({time_ / base:.2f})"
            for key, time_ in ((key, np.median(t, axis=0).mean()) for key, t in taken.items())
        ))  # fmt: skip


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle")
    parser.add_argument("images")
    parser.add_argument("--int8")
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--parts", nargs="+", default=["latency", "stopping", "predicted", "runtimes"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    with np.load(asked.images) as file:
        images, labels = file["images"], file["labels"]
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    if "latency" in asked.parts:
        latency(asked.bundle, images[: asked.count], asked.rounds, asked.backend)
    if "stopping" in asked.parts:
        stopping(asked.bundle, images, 4 * asked.rounds, asked.backend)
    if "predicted" in asked.parts:
        predicted(asked.bundle, images[: asked.count], asked.rounds, asked.backend)
    if "runtimes" in asked.parts:
        runtimes(asked.bundle, asked.int8, images[:512], labels[:512], asked.rounds, asked.threads)
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
