"""What the engine costs and saves: overhead of running by branches, deciding, backends, realised savings.

    python benchmarks/engine.py RUN --data cifar10 --root datasets --threads 1 --clock processor

RUN is a run with recorded votes (``quorate train --votes``). All contenders take turns; medians over rounds, means over
the calls of a round. ``--clock processor`` counts the time of the calling thread alone, which on a busy machine is what
one thread would take on a quiet one; it needs ``--threads 1``.
"""

import argparse
import copy
import os
import platform
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("GOMP_SPINCOUNT", "10000")
import torch

from quorate.cli.bench import say
from quorate.cli.bench_inputs import NOBODY, images_for, policies_for
from quorate.engine.bench import Contender, bench, plain_vote
from quorate.engine.contenders import available_backends, open_contender
from quorate.engine.inputs import prepare
from quorate.engine.recorded import RecordedNetworks
from quorate.engine.sources import Eager, Lazy
from quorate.engine.timing import interleaved, per_image
from quorate.engine.whole import whole_learners
from quorate.squad import Policy, Votes, drive
from quorate.store import read_votes
from quorate.store.run import RunFolder
from quorate.store.timings import this_machine

Clock = Callable[[], float]


def overhead(contenders: list[Contender], images: Any, policy: Policy, rounds: int, clock: Clock) -> None:
    """Running by branches, where nobody passes, against whole networks."""
    print(f"\nOverhead: nobody passes, against the static ensemble as whole networks, {rounds} rounds")
    print("| backend | batch | static, ms | branches alone | eager | lazy |\n|---|---|---|---|---|---|")
    for size in (1, 32, 256):
        batch = images[:size]
        jobs: dict[tuple[str, str], Any] = {}
        for one in contenders:
            jobs[one.backend, "static"] = [partial(static, one, batch)]
            jobs[one.backend, "branches"] = [partial(all_branches, one, batch)]
            jobs[one.backend, "eager"] = [partial(one.branches.with_policy(policy, "eager"), batch)]
            jobs[one.backend, "lazy"] = [partial(one.branches.with_policy(policy, "lazy"), batch)]
        few = rounds if size > 1 else 5 * rounds
        taken = {key: float(np.median(times)) for key, times in interleaved(jobs, few, clock=clock).items()}
        for one in contenders:
            mine = [taken[one.backend, name] for name in ("static", "branches", "eager", "lazy")]
            ratios = " | ".join(f"{value / mine[0]:.2f}x" for value in mine[1:])
            print(f"| {one.backend} | {size} | {mine[0]:.2f} | {ratios} |", flush=True)


def static(one: Contender, batch: Any) -> None:
    """Whole networks, and the mean of what they say."""
    plain_vote(one.whole, batch, range(one.whole.macs.shape[1]))


def all_branches(one: Contender, batch: Any) -> None:
    """Every branch once, without anybody deciding."""
    given, networks = prepare(batch, one.branches.inputs), one.branches.networks
    for k in range(networks.present.shape[1]):
        state = networks.first(k, given, np.arange(given.n))
        for e in np.flatnonzero(networks.present[:, k]).tolist():
            state, _ = networks.run(k, e, state)


class Known(RecordedNetworks):
    """One sample whose votes are known: running a branch takes no time, so that deciding is all that is measured."""

    def first(self, learner: int, inputs: Any, rows: Any) -> Any:
        """Nothing."""
        return None

    def run(self, learner: int, exit: int, state: Any) -> tuple[Any, Any]:
        """What was recorded."""
        return state, self.probs[exit, learner]


def deciding(votes: Votes, committee: Any, policies: Mapping[str, Policy], clock: Clock) -> dict[str, float]:
    """Policy, loop and source over recorded votes; milliseconds an image at batch 256 by policy."""
    probs = np.ascontiguousarray(votes.probs[:, :, :256])
    lattice, networks = committee.lattice, RecordedNetworks(probs, None, committee.networks.chained)
    at_256 = {}
    print("\nDeciding (policy, loop and source; networks that only look up)")
    print("| policy | us a vote, one sample, lazy | eager | us an image, batches of 256, lazy |\n|---|---|---|---|")
    for name, policy in policies.items():
        cells = []
        for kind in (Lazy, Eager):
            seconds = counted = 0.0
            for n in range(256):
                alone = Known(probs[:, :, [n]], None, committee.networks.chained)
                start = clock()
                verdict, _ = drive(policy, kind(alone, None, 1, lattice.order), 1, lattice)
                seconds += clock() - start
                counted += int((verdict.waited >= 0).sum())
            cells.append(f"{1e6 * seconds / counted:.1f}")
        jobs = {name: [lambda policy=policy: drive(policy, Lazy(networks, None, 256), 256, lattice)]}
        at_256[name] = per_image(interleaved(jobs, 20, clock=clock)[name], 256)
        print(f"| {name} | {cells[0]} | {cells[1]} | {1e3 * at_256[name]:.2f} |")
    return at_256


def backends(contenders: list[Contender], images: Any, rounds: int, clock: Clock) -> None:
    """The static ensemble, one image at a time: torch as anybody would write it, ours, ONNX Runtime."""
    torch_one = next(one for one in contenders if one.backend == "torch")
    plain = [copy.deepcopy(one) for one in whole_learners(torch_one.branches.learners or ())]

    def eagerly() -> None:
        with torch.no_grad():
            x = torch.from_numpy(prepare(images[:1], torch_one.branches.inputs).of(0, np.arange(1)))
            torch.stack([one(x)[0].softmax(1) for one in plain]).mean(0).numpy()

    jobs: dict[str, Any] = {"plain torch (NCHW, batch norms, eager)": [eagerly]}
    for one in contenders:
        name = "torch backend (channels last, folded)" if one.backend == "torch" else one.backend
        jobs[name] = [partial(static, one, images[:1])]
    taken = {name: float(np.median(times)) for name, times in interleaved(jobs, rounds, clock=clock).items()}
    first = next(iter(taken.values()))
    print("\nThe static ensemble as whole networks, batches of 1\n| | ms | faster than plain torch |\n|---|---|---|")
    for name, value in taken.items():
        print(f"| {name} | {value:.2f} | {first / value:.2f}x |")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--data")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=64)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32, 256])
    parser.add_argument("--only", choices=["overhead", "deciding", "backends", "savings"], action="append")
    parser.add_argument("--backends", nargs="*")
    parser.add_argument("--cache", type=Path)
    given = parser.parse_args()
    if given.clock == "processor" and given.threads != 1:
        parser.error("--clock processor counts one thread: give --threads 1")
    clock = time.thread_time if given.clock == "processor" else time.perf_counter
    only = given.only or ["overhead", "deciding", "backends", "savings"]
    torch.set_num_threads(given.threads)
    contenders = [
        open_contender(given.run, name, threads=given.threads, cache=given.cache)
        for name in given.backends or available_backends(given.run)
    ]
    committee = contenders[0].branches
    shown = images_for(
        given.run, data=given.data, root=given.root, images=None, noise=False, least=256, most=given.calls,
        spec=committee.inputs[0],
    )  # fmt: skip
    votes = read_votes(RunFolder(given.run).votes)
    chosen = policies_for(committee, votes, [], 0.5)
    hardware = this_machine()
    versions = {name: version(name) for name in ("torch", "onnxruntime", "numpy")}
    print(
        f"{hardware['processor']}, {hardware['cores']} cores, load {os.getloadavg()[0]:.1f}; "
        f"{given.threads} threads, {given.clock} clock; {versions}, Python {platform.python_version()}"
    )
    if "backends" in only:
        backends(contenders, shown.images, 10 * given.rounds, clock)
    if "overhead" in only:
        overhead(contenders, shown.images, chosen.policies[NOBODY], given.rounds, clock)
    policies = {name: policy for name, policy in chosen.policies.items() if name in ("SQUAD", "pool")}
    shares = deciding(votes, committee, policies, clock) if "deciding" in only else {}
    if "savings" in only:
        found = bench(
            contenders, shown.images, shown.labels, policies=policies, cascade=chosen.cascade, rounds=given.rounds,
            batches=given.batches, calls=given.calls, clock=clock,
        )  # fmt: skip
        print()
        say(found, {"measured": given.run.name, "run_on": shown.what, "threads": given.threads, "hardware": hardware,
                    "versions": versions, "notes": chosen.notes}, real=True)  # fmt: skip
        for row in found.rows:
            if row.batch == 256 and row.source == "lazy" and row.name in shares:
                print(f"deciding, {row.backend}, {row.name}, batches of 256: "
                      f"{100 * shares[row.name] / row.milliseconds:.2f} % of the time")  # fmt: skip


if __name__ == "__main__":
    main()
