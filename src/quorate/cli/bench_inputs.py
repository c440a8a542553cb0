"""What ``quorate bench`` runs on, and who decides: images that exits mean something on, policies fitted on votes.

This file does not know how anything is measured.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from quorate.cli.common import calibration_of
from quorate.cli.policy_flags import PolicyFlags
from quorate.engine.bench import OWN
from quorate.engine.committee import Committee
from quorate.engine.whole import whole_macs
from quorate.errors import QuorateError
from quorate.squad import Cascade, Policy, Rule, Votes, Wish
from quorate.squad import tune as tune_votes
from quorate.store.run import InputSpec, RunFolder

__all__ = ["Chosen", "Shown", "images_for", "policies_for"]

NOBODY = "nobody passes"


class Shown(NamedTuple):
    """Images to run on: ``[N, H, W, C]`` uint8 or tensors, labels where they are known, and what they are.

    ``real`` says that exits on them mean something.
    """

    images: Any
    labels: Any
    what: str
    real: bool = True


class Chosen(NamedTuple):
    """Who decides: policies by name, who decides over whole learners, and what is to be said of them."""

    policies: dict[str, Policy]
    cascade: Policy | None
    notes: list[str]


def images_for(
    path: Path, *, data: str | None, root: Path | None, images: Path | None, noise: bool, least: int, most: int,
    spec: InputSpec | None,
) -> Shown:  # fmt: skip
    """The images that were named, or those of the data set that the run was trained on: ``most``, or at ``least`` some.

    Raises:
        QuorateError: there are none, or too few.
        ValueError: more than one kind was named.
    """
    if sum((data is not None, images is not None, noise)) > 1:
        raise ValueError("give one of --data, --images and --noise")
    if noise:
        if spec is None:
            raise ValueError("noise is made for learners of images: pass --images FILE.npy with the tensors they read")
        size = (max(least, most), spec.height, spec.width, spec.channels)
        return Shown(np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8), None,
                     "noise: times of branches hold, exits and savings mean nothing", real=False)  # fmt: skip
    if images is not None:
        return _some(_read(images, spec), None, images.name, least, most)
    if RunFolder(path).config.is_file():
        from quorate.train.again import data_of_run

        found = data_of_run(path, data=data, root=root)
    elif data is not None:
        from quorate.data import load

        found = load(data, root=root, side=spec.height if spec is not None else 64)
    else:
        raise QuorateError(
            f"{path}: does not say what it was trained on, and exits on noise mean nothing: name images with "
            "--data NAME or --images FOLDER, or measure branches alone with --noise"
        )
    return _some(found.test_images, found.test_labels, f"{found.name}, test part", least, most)


def policies_for(committee: Committee, votes: Votes | None, named: Sequence[str], max_drop: float) -> Chosen:
    """SQUAD, the pool and the cascade at their cheapest within ``max_drop`` points; the committee's own; those named.

    Without votes nothing can be fitted: SQUAD and the cascade then have their default thresholds.
    """
    several = committee.macs.shape[1] > 1
    policies: dict[str, Policy] = {OWN: committee.policy}
    notes: list[str] = []
    if votes is None:
        policies["SQUAD"], cascade = (Rule() if several else Rule("mean")), Cascade()
        notes.append("no recorded votes, so no pool is fitted, and SQUAD and the cascade stop above 0.9, whatever that "
                     "costs in accuracy: name them with --votes")  # fmt: skip
    else:
        if votes.macs.shape != committee.macs.shape or votes.probs.shape[3] != len(committee.classes):
            raise ValueError(
                f"the votes are of {list(votes.macs.shape)} branches and {votes.probs.shape[3]} classes, "
                f"the committee has {list(committee.macs.shape)} and {len(committee.classes)}"
            )
        part, which = calibration_of(votes, None)
        wish = Wish(max_drop=max_drop)
        part = part._replace(arrival=None, order=None)
        for name in ("SQUAD", "pool"):
            tuned = tune_votes(part, wish, [name.lower()])
            policies[name] = tuned.policy
            if not tuned.kept:
                notes.append(f"{name} cannot come within {max_drop:g} points of the static soft vote; it comes closest")
        cascade = tune_votes(_whole(part), wish, ["cascade"]).policy  # type: ignore[assignment]
        notes.append(f"SQUAD, pool and cascade: the cheapest threshold within {max_drop:g} points on the "
                     f"{len(part.labels):,} votes of split {which}")  # fmt: skip
    policies |= {name: PolicyFlags(policy=name).build() for name in named}
    policies[NOBODY] = Rule("mean", float(np.nextafter(1, 0)))
    for policy in policies.values():
        policy.start(1, committee.lattice)  # one for another committee says so
    notes = [
        *(f"{name}: {policy}" for name, policy in policies.items() if name != NOBODY),
        f"cascade: {cascade}",
        *notes,
    ]
    return Chosen(policies, cascade if several else None, notes)


def _whole(votes: Votes) -> Votes:
    """The votes of whole learners."""
    present = None if votes.present is None else votes.present[-1:]
    table = whole_macs(votes.macs, votes.chained)
    return votes._replace(probs=votes.probs[-1:], macs=table, present=present, milliseconds=None, chained=True)


def _some(images: Any, labels: Any, what: str, least: int, most: int) -> Shown:
    """So many of them, drawn by seed, so that a file sorted by class shows all of them."""
    if len(images) < least:
        raise QuorateError(f"{what}: holds {len(images)} images, {least} are needed: lower --batches, or bring more")
    count = min(len(images), max(least, most))
    rows = np.sort(np.random.default_rng(0).permutation(len(images))[:count])
    return Shown(images[rows], None if labels is None else labels[rows], f"{count} images of {what}")


def _read(path: Path, spec: InputSpec | None) -> Any:
    if path.is_dir():
        from quorate.cli.predict import pictures_of
        from quorate.data.pictures import read_picture

        if spec is None:
            raise ValueError("these learners read no images: pass --images FILE.npy with the tensors they read")
        side = max(spec.height, spec.width)
        return np.stack([read_picture(file, side, spec.channels) for file in pictures_of([path])])
    try:
        return np.load(path, allow_pickle=False, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise QuorateError(f"{path}: is neither a folder of pictures nor a .npy of images ({error})") from error
