"""A committee as the directory of a run, which :func:`quorate.load` reads back.

Shapes: ``E`` exits, ``K`` learners. This file does not know how learners were trained.
"""

import os

import torch

from quorate import __version__
from quorate.engine.committee import Committee
from quorate.nets import DartsLearner
from quorate.nets.describing import describe_network
from quorate.store.atomic import write_atomic
from quorate.store.folders import new_folder
from quorate.store.run import CommitteeRecord, LearnerRecord, RunFolder, write_committee, write_config
from quorate.store.timings import write_timings
from quorate.store.weights import write_weights

__all__ = ["save_run"]


def save_run(committee: Committee, path: str | os.PathLike[str]) -> None:
    """Write weights, networks in words, policy, cost table, class names, inputs, and what was measured.

    Args:
        committee: of torch learners. Networks of the user's own are kept as weights only: loading them needs
            ``build=``.
        path: a folder that does not exist, or is empty. It appears when everything is written, or not.

    Raises:
        ValueError: the committee has no learners of torch; it came from a bundle.
        TypeError: for a policy of the user's own, which no document can hold.

    Example:
        >>> import tempfile, quorate
        >>> from quorate.nets import cascade
        >>> from quorate.squad import Static
        >>> learner = cascade([torch.nn.Linear(4, 3)])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_run(Committee([learner], Static(), macs=[[12]]), f"{folder}/run")
        ...     quorate.load(f"{folder}/run", build=lambda k: cascade([torch.nn.Linear(4, 3)])).policy
        Static()
    """
    if committee.learners is None:
        raise ValueError("only a committee of torch learners can be saved; a bundle is on disk already: copy its folder")
    with new_folder(path, "run") as draft:
        place = RunFolder(draft)
        for k, learner in enumerate(committee.learners):
            place.learner(k).mkdir(parents=True)
            arrays = {name: t.detach().cpu().contiguous().numpy() for name, t in learner.state_dict().items()}
            write_weights(place.weights(k), arrays)
            if isinstance(learner, DartsLearner):
                write_atomic(place.genotype(k), (learner.genotype.to_json() + "\n").encode())
        write_config(place.config, {"saved": {"quorate": __version__, "torch": str(torch.__version__)}})
        if committee.timings:
            write_timings(draft, committee.timings)
        write_committee(place.committee, _record(committee))


def _record(committee: Committee) -> CommitteeRecord:
    learners = tuple(
        LearnerRecord(f"learner {k}", describe_network(learner), spec, f"learners/{k}/weights.safetensors", {})
        for k, (learner, spec) in enumerate(zip(committee.learners or (), committee.inputs, strict=True))
    )
    table = tuple(tuple(row) for row in committee.macs.tolist())
    return CommitteeRecord(committee.policy, table, committee.classes, learners, committee.networks.chained)
