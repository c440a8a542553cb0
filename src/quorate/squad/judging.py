"""Every policy judged at every threshold: curves to choose on, and curves of the samples that judge.

On the calibration split curves are cross-fitted, so that thresholds are chosen on samples that nothing was fitted on;
the judging samples are decided by what was fitted on the whole of it. Where there is one split only, both are the same
cross-fitted curves, and a choice is repeated without the fold that it is judged on.

Shapes: ``N`` samples, ``G`` thresholds. This file does not know how any policy decides, nor what is done with choices.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from quorate.squad.candidates import (
    Candidate,
    Progress,
    candidates,
    crossfit,
    curve_of,
    fit,
    fits_of_folds,
    folds_of,
    traced,
)
from quorate.squad.tuning import Wish, choose
from quorate.squad.votes import Votes

__all__ = ["Judge"]

Array: TypeAlias = np.ndarray[Any, Any]


class Judge:
    """The curves that thresholds are chosen on, and those that judge, of one table of costs.

    Args:
        votes: the samples that judge.
        calibration: samples to fit and choose on; None: cross-fitting among ``votes``.
        policies: families, see :data:`quorate.squad.candidates.FAMILIES`; the static ensemble is always there.
        devices: the costs to choose by; ``"milliseconds"`` where the votes' costs are milliseconds.
        progress: called with what is being done, the steps done, and of how many.

    Attributes:
        choosing: a curve per candidate, on the samples that thresholds are chosen on.
        judging: the same candidates on the samples that judge.
        static: the judging curve of the static ensemble.
        fits: what was fitted on the calibration split (one), or for each fold of the judging samples.
        fold: ``[N]`` which fit decides each judging sample.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=300)
        >>> logits = 3 * np.eye(3)[labels] + rng.normal(size=(2, 2, 300, 3))
        >>> probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        >>> judge = Judge(Votes(probs, labels, np.ones((2, 2))), None, ["squad"], ["lazy"])
        >>> list(judge.groups())
        ['static soft vote', 'SQUAD, mean', 'SQUAD, t-test']
    """

    def __init__(
        self,
        votes: Votes,
        calibration: Votes | None,
        policies: Sequence[str],
        devices: Sequence[str],
        progress: Progress | None = None,
    ) -> None:
        """See the class."""
        self.devices, self.votes, self.calibration = devices, votes, calibration
        tried = candidates(votes.macs, [*policies, "static"])
        costs = list(dict.fromkeys(map(self.cost, devices)))
        families = [*policies, "static"]
        self.fits = fits_of_folds(votes if calibration is None else calibration, families, progress)
        self.choosing = crossfit(votes if calibration is None else calibration, tried, costs, progress, self.fits)
        self.judging = self.choosing
        if calibration is not None:
            self.fits = [fitted := fit(calibration, families)]
            self.judging = [curve_of(c, fitted, traced(c, fitted, votes), votes.labels, costs) for c in tried]
        self.static = self.judging[0]
        n = len(votes.labels)
        self.fold = folds_of(n) if calibration is None else np.zeros(n, int)

    @staticmethod
    def cost(device: str) -> str:
        """The cost that counts on a device."""
        return "lazy" if device == "milliseconds" else device

    def groups(self, keep: Callable[[Candidate], bool] = lambda candidate: True) -> dict[str, list[int]]:
        """The candidates by group, in their order."""
        groups: dict[str, list[int]] = {}
        for i, curve in enumerate(self.judging):
            if keep(curve.candidate):
                groups.setdefault(curve.candidate.group, []).append(i)
        return groups

    def chosen(self, members: Sequence[int], device: str, allowed: float) -> tuple[str, Array, Array, bool]:
        """``(variant, right [N], cost [N], kept)`` with variant and threshold chosen where they are not judged."""
        cost, wish = self.cost(device), Wish(max_drop=allowed)
        mine = [self.choosing[i] for i in members]
        right, spent = np.empty(len(self.fold), bool), np.empty(len(self.fold))
        kept, names = True, []
        for f in np.unique(self.fold):
            held = self.fold == f
            among = ~held if self.calibration is None else np.ones(len(self.calibration.labels), bool)
            at, g = choose(mine, self.choosing[0], wish, cost, among)
            drop = 100 * (self.choosing[0].right[0, among].mean() - mine[at].right[g, among].mean())
            kept = kept and wish.keeps(float(drop), 0.0)
            judge = self.judging[members[at]]
            right[held], spent[held] = judge.right[g, held], judge.costs[cost][g, held]
            names.append(judge.candidate.name)
        return max(set(names), key=names.count), right, spent, kept

    def pick(self, members: Sequence[int], device: str, wish: Wish) -> tuple[int, int, bool]:
        """``(candidate, threshold, kept)``: the one choice on all samples that are there to choose on."""
        cost = self.cost(device)
        mine = [self.choosing[i] for i in members]
        at, g = choose(mine, self.choosing[0], wish, cost)
        drop = 100 * float(self.choosing[0].right[0].mean() - mine[at].right[g].mean())
        return members[at], g, wish.keeps(drop, float(mine[at].costs[cost][g].mean(dtype=np.float64)))
