"""Record the votes of three small early-exit learners on scikit-learn's digits, and write them to a file.

Each learner is a chain of three one-layer perceptrons. Branch ``e`` sees the features of branch ``e - 1`` and a view
of the image that grows with the depth: from the left, from the right, or from the middle. So a deeper exit knows
more, reuses what is known, and costs more; and the three learners see different things.

    python examples/digits_votes.py            # writes examples/digits.safetensors
    python examples/digits_votes.py --check    # makes it again elsewhere, exit status 1 if it says something else
"""

import argparse
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from quorate.squad.votes import Votes
from quorate.store import read_votes, write_votes

Array: TypeAlias = np.ndarray[Any, Any]

COMMITTED = Path(__file__).with_name("digits.safetensors")
VIEWS: dict[
    str, list[Any]
] = {  # rows and columns of the 8 x 8 image that each exit sees; the outermost columns are nearly blank
    "left": [np.s_[:, 1:4], np.s_[:, 1:5], np.s_[:, 1:6]],
    "right": [np.s_[:, 4:7], np.s_[:, 3:7], np.s_[:, 2:7]],
    "middle": [np.s_[2:5, 1:7], np.s_[1:6, 1:7], np.s_[0:7, 1:7]],
}
WIDTHS = {"left": [16, 20, 24], "right": [20, 24, 28], "middle": [24, 28, 32]}
TRAINED, CALIBRATION = 500, 600  # of 1,797 images; the rest is the test split. A gate needs repairs to learn from
EPOCHS = 50
TOLERANCE = 0.02
"""How far an accuracy may move: training on another machine differs in the last bits, and so in a few votes."""


def main() -> int:
    """Write the file, or with ``--check`` compare a new one with it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make the file elsewhere and compare")
    if not parser.parse_args().check:
        write_votes(record(), COMMITTED)
        print(f"wrote {COMMITTED} ({COMMITTED.stat().st_size / 1000:.0f} kB)\n{_table(read_votes(COMMITTED))}")
        return 0
    with TemporaryDirectory() as folder:
        again = Path(folder) / COMMITTED.name
        write_votes(record(), again)
        faults = differences(read_votes(again), read_votes(COMMITTED))
    for fault in faults:
        print(f"{COMMITTED.name}: {fault}; run {Path(__file__).name} to make it again", file=sys.stderr)
    return 1 if faults else 0


def record() -> Votes:
    """Train the learners and let every branch vote on the calibration and the test split."""
    digits = load_digits()
    images, labels = digits.images / 16, digits.target
    train, rest = train_test_split(np.arange(len(labels)), train_size=TRAINED, stratify=labels, random_state=0)
    calibration, test = train_test_split(rest, train_size=CALIBRATION, stratify=labels[rest], random_state=0)
    held_out = np.concatenate([calibration, test])
    learners = [learner(images, labels, train, name, seed) for seed, name in enumerate(VIEWS)]
    return Votes(
        probs=np.stack([probs[:, held_out] for probs, _ in learners], axis=1),
        labels=labels[held_out],
        macs=np.stack([macs for _, macs in learners], axis=1),
        split=np.repeat(["calibration", "test"], [len(calibration), len(test)]),
        metadata={
            "classes": [str(name) for name in digits.target_names],
            "learners": list(VIEWS),
            "source": "scikit-learn's digits (UCI optical recognition of handwritten digits), examples/digits_votes.py",
        },
    )


def learner(images: Array, labels: Array, train: Array, name: str, seed: int) -> tuple[Array, Array]:
    """Probabilities ``[E, N, C]`` of one learner on all images, and the incremental MACs ``[E]`` of its branches."""
    features, probs, macs = np.zeros((len(images), 0)), [], []
    for e, (view, width) in enumerate(zip(VIEWS[name], WIDTHS[name], strict=True)):
        seen = np.hstack([features, images[:, view[0], view[1]].reshape(len(images), -1)])
        branch = MLPClassifier(width, alpha=1e-3, learning_rate_init=0.01, max_iter=EPOCHS, random_state=10 * seed + e)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)  # stopping early is meant
            branch.fit(seen[train], labels[train])
            probs.append(branch.predict_proba(seen))
        hidden, head = branch.coefs_
        macs.append(hidden.size + head.size)
        features = np.maximum(seen @ hidden + branch.intercepts_[0], 0)
    return np.stack(probs), np.array(macs)


def accuracies(votes: Votes, split: str) -> Array:
    """``[E, K + 1]``: each branch, and last the soft vote of all learners at that exit."""
    part = votes.of(split)
    soft = part.probs.mean(axis=1, keepdims=True)
    right: Array = np.concatenate([part.probs, soft], axis=1).argmax(axis=-1) == part.labels
    share: Array = right.mean(axis=-1)
    return share


def differences(made: Votes, committed: Votes) -> list[str]:
    """What the two files say differently."""
    same = {
        "labels": np.array_equal(made.labels, committed.labels),
        "splits": np.array_equal(np.asarray(made.split), np.asarray(committed.split)),
        "MACs": np.array_equal(made.macs, committed.macs),
        "metadata": made.metadata == committed.metadata,
        "number of classes": made.probs.shape[-1] == committed.probs.shape[-1],
    }
    faults = [f"other {name}" for name, agree in same.items() if not agree]
    if not faults:
        moved = max(np.abs(accuracies(made, s) - accuracies(committed, s)).max() for s in ("calibration", "test"))
        if moved > TOLERANCE:
            faults.append(f"an accuracy moved by {100 * moved:.1f} points, at most {100 * TOLERANCE:.1f} are expected")
    return faults


def _table(votes: Votes) -> str:
    names = [*votes.metadata["learners"], "soft vote"]
    lines = ["accuracy on the test split (MACs so far)"]
    for e, row in enumerate(accuracies(votes, "test")):
        macs = votes.macs[: e + 1].sum(axis=0)
        cells = zip(names, row, [*macs, macs.sum()], strict=True)
        lines.append(f"exit {e}:  " + "   ".join(f"{name} {100 * a:.2f} % ({m:.0f})" for name, a, m in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
