"""How to decide: policies over the votes of a committee, what their answers cost, and the loop that runs them.

Read in this order: ``protocol`` (the seam), ``voting`` and ``exit_test`` (the stage functions), ``rule`` (SQUAD),
``path`` and ``policies`` (the rivals), ``cost``, ``loop``, ``fused`` and ``replaying``.
"""

from quorate.squad.cost import COSTS, Costs, costs
from quorate.squad.exit_test import confidence, critical_values
from quorate.squad.loop import Recorded, drive
from quorate.squad.path import PathPolicy
from quorate.squad.policies import Confidence, Static
from quorate.squad.protocol import DECIDED, Lattice, Policy, Source, Verdict
from quorate.squad.replaying import Outcome, Stages, replay, stages
from quorate.squad.rule import Rule
from quorate.squad.tracing import Trace, trace
from quorate.squad.votes import Votes
from quorate.squad.voting import Settled, plurality, quorum

__all__ = [
    "COSTS",
    "DECIDED",
    "Confidence",
    "Costs",
    "Lattice",
    "Outcome",
    "PathPolicy",
    "Policy",
    "Recorded",
    "Rule",
    "Settled",
    "Source",
    "Stages",
    "Static",
    "Trace",
    "Verdict",
    "Votes",
    "confidence",
    "costs",
    "critical_values",
    "drive",
    "plurality",
    "quorum",
    "replay",
    "stages",
    "trace",
]
