"""How to decide: policies over the votes of a committee, what their answers cost, and the loop that runs them.

Read in this order: ``protocol`` (the seam), ``voting`` and ``exit_test`` (the stage functions), ``rule`` (SQUAD),
``path``, ``policies`` and ``pool`` (the others; ``pool_fit``, ``temperature`` and ``priced`` beside them), ``cost``,
``loop``, ``fused`` and ``replaying`` (recorded votes), ``tracing``, ``candidates``, ``tuning`` and ``comparison``.
"""

from quorate.squad.comparison import Comparison, compare
from quorate.squad.cost import COSTS, Costs, costs
from quorate.squad.documents import policy_from_document, policy_to_document
from quorate.squad.exit_test import confidence, critical_values
from quorate.squad.loop import Recorded, drive
from quorate.squad.path import PathPolicy
from quorate.squad.policies import Agreement, Cascade, Confidence, Soft, Static
from quorate.squad.pool import Pool
from quorate.squad.priced import Priced
from quorate.squad.protocol import DECIDED, Lattice, Policy, Source, Verdict
from quorate.squad.replaying import Outcome, Stages, replay, stages
from quorate.squad.rule import Rule
from quorate.squad.temperature import Scaled, fit_temperatures
from quorate.squad.tracing import Trace, trace
from quorate.squad.tuning import Tuned, Wish, tune
from quorate.squad.votes import Votes
from quorate.squad.voting import Settled, plurality, quorum

__all__ = [
    "COSTS",
    "DECIDED",
    "Agreement",
    "Cascade",
    "Comparison",
    "Confidence",
    "Costs",
    "Lattice",
    "Outcome",
    "PathPolicy",
    "Policy",
    "Pool",
    "Priced",
    "Recorded",
    "Rule",
    "Scaled",
    "Settled",
    "Soft",
    "Source",
    "Stages",
    "Static",
    "Trace",
    "Tuned",
    "Verdict",
    "Votes",
    "Wish",
    "compare",
    "confidence",
    "costs",
    "critical_values",
    "drive",
    "fit_temperatures",
    "plurality",
    "policy_from_document",
    "policy_to_document",
    "quorum",
    "replay",
    "stages",
    "trace",
    "tune",
]
