"""One policy on labelled votes, as the numbers that every table, file and page shows.

Shapes: ``E`` exits, ``K`` learners, ``N`` samples. This file does not know how numbers are printed.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from quorate.measures import aurc, auroc, ece, exit_ece, exit_ratios, pivot_ratios, ppd, stage_ece
from quorate.squad import COSTS, Outcome, Policy, Priced, Rule, Scaled, Stages, Static, Votes, replay, stages

__all__ = ["Summary", "classes_of", "decide", "judge", "summarise"]


@dataclass(frozen=True)
class Summary:
    """Shares and errors lie in [0, 1]; costs are means in the unit of the votes' cost table.

    Attributes:
        samples: how many.
        accuracy: share of right labels.
        accuracy_error: standard error of that share.
        costs: mean of each cost by its name; None where the policy has no such cost.
        cost_errors: standard error of each of those means.
        left: by exit, share that left there with the policy's test passed.
        forced: by exit, share that got a forced answer there.
        pivots: by exit and rank, share of the stages held there that this rank settled; None without stages.
        ece: expected calibration error, overall.
        exit_ece: by exit, over those that left there; None where nobody did.
        stage_ece: by exit, every stage evaluated for every sample; None for a policy without stages.
        ppd: by exit, pairwise disagreement of the learners' votes; None for one learner.
        aurc: area under the risk-coverage curve of the confidence.
        auroc: of telling right from wrong by confidence; None where all are right, or all wrong.
        unanswered: samples that nobody could answer.
    """

    samples: int
    accuracy: float
    accuracy_error: float
    costs: dict[str, float | None]
    cost_errors: dict[str, float | None]
    left: list[float]
    forced: list[float]
    pivots: list[list[float | None]] | None
    ece: float
    exit_ece: list[float | None]
    stage_ece: list[float] | None
    ppd: list[float | None]
    aurc: float
    auroc: float | None
    unanswered: int

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, lists and None, ready for ``json.dump``."""
        return asdict(self)


def summarise(
    outcome: Outcome,
    labels: np.ndarray[Any, Any],
    votes: np.ndarray[Any, Any],
    stages: Stages | None = None,
    *,
    static: bool = False,
) -> Summary:
    """Judge an outcome against the true labels.

    Args:
        outcome: what a policy said, numpy arrays.
        labels: ``[N]`` the truth.
        votes: ``[E, K, N]`` the class each branch voted for, -1 where it is absent.
        stages: every stage of every sample, for a policy that has stages.
        static: whether it is the static ensemble's, whose F_M and F_MT are its free-running costs.

    Example:
        >>> from quorate.squad import Rule, replay
        >>> probs = np.array([[[[0.9, 0.1]], [[0.8, 0.2]]]])
        >>> summarise(replay(probs, [[1, 2]], Rule("mean", 0.5)), np.array([0]), probs.argmax(-1)).accuracy
        1.0
    """
    right = outcome.label == labels
    num_exits = len(outcome.pivot)
    n = len(right)
    if n == 0:
        raise ValueError("a summary needs at least one sample, got none")
    exits = exit_ratios(outcome.exit, outcome.passed, num_exits)
    staged = bool((outcome.pivot >= 0).any())
    pivots = pivot_ratios(outcome.pivot, outcome.exit, outcome.passed, votes.shape[1]).by_rank if staged else None
    accuracy = float(right.mean())
    costs = {name: _number(getattr(outcome, field).mean()) for name, field in COSTS.items()}
    errors = {name: _number(getattr(outcome, field).std() / np.sqrt(n)) for name, field in COSTS.items()}
    if static:
        costs |= {"f-m": costs["free-running"], "f-mt": costs["free-running-energy"]}
        errors |= {"f-m": errors["free-running"], "f-mt": errors["free-running-energy"]}
    return Summary(
        samples=n,
        accuracy=accuracy,
        accuracy_error=float(np.sqrt(accuracy * (1 - accuracy) / n)),
        costs=costs,
        cost_errors=errors,
        left=exits.passed.tolist(),
        forced=exits.forced.tolist(),
        pivots=None if pivots is None else [[_number(share) for share in row] for row in pivots],
        ece=ece(outcome.confidence, right),
        exit_ece=[_number(x) for x in exit_ece(outcome.confidence, right, outcome.exit, num_exits)],
        stage_ece=None if stages is None else stage_ece(stages.confidence, stages.label == labels).tolist(),
        ppd=[_number(x) for x in ppd(np.maximum(votes, 0), votes >= 0)],
        aurc=aurc(outcome.confidence, right),
        auroc=_number(auroc(outcome.confidence, right)),
        unanswered=int((outcome.label < 0).sum()),
    )


def decide(votes: Votes, policy: Policy) -> Outcome:
    """:func:`quorate.squad.replay` with all that the votes say.

    A static ensemble waits for everybody, so it is not judged on what had arrived when somebody else stopped.

    Example:
        >>> votes = Votes(np.array([[[[0.9, 0.1]]]]), np.array([0]), np.ones((1, 1)))
        >>> decide(votes, Static()).label
        array([0])
    """
    arrival = None if isinstance(bare(policy), Static) else votes.arrival
    return replay(
        votes.probs, votes.macs, policy, order=votes.order, arrival=arrival, present=votes.present,
        chained=votes.chained,
    )  # fmt: skip


def judge(votes: Votes, policy: Policy, outcome: Outcome | None = None) -> Summary:
    """A policy's summary on labelled votes, with lazy milliseconds where they are known (at the smallest batch).

    Args:
        votes: with labels.
        policy: who decides.
        outcome: what :func:`decide` said, where it is there already.

    Example:
        >>> votes = Votes(np.array([[[[0.9, 0.1]]]]), np.array([0]), np.ones((1, 1)))
        >>> judge(votes, Static()).accuracy
        1.0
    """
    outcome = decide(votes, policy) if outcome is None else outcome
    rule = bare(policy)
    table = None
    if isinstance(rule, Rule):
        probs = policy.apply(votes.probs) if isinstance(policy, Scaled) else votes.probs
        table = stages(probs, votes.macs, rule, order=votes.order, present=votes.present)
    summary = summarise(outcome, votes.labels, classes_of(votes), table, static=isinstance(rule, Static))
    if votes.milliseconds and votes.order is None:
        timed = votes._replace(macs=votes.milliseconds[min(votes.milliseconds)])
        asked = policy if isinstance(policy, Priced) else Priced(policy, votes.macs)
        spent = decide(timed, asked).lazy_macs
        summary.costs["milliseconds"] = float(spent.mean())
        summary.cost_errors["milliseconds"] = float(spent.std() / np.sqrt(len(spent)))
    return summary


def bare(policy: Policy) -> Policy:
    """The policy without temperatures.

    Example:
        >>> bare(Scaled(Static(), [[1.0]]))
        Static()
    """
    return policy.policy if isinstance(policy, Scaled) else policy


def classes_of(votes: Votes) -> np.ndarray[Any, Any]:
    """``[E, K, N]`` the class each branch votes for, -1 where it is absent.

    Example:
        >>> classes_of(Votes(np.array([[[[0.1, 0.9]]]]), np.array([0]), np.ones((1, 1))))
        array([[[1]]])
    """
    classes = np.asarray(np.nan_to_num(votes.probs).argmax(-1))
    return classes if votes.present is None else np.where(votes.present, classes, -1)


def _number(x: Any) -> float | None:
    return None if np.isnan(x) else float(x)
