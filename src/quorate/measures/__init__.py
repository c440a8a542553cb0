"""How good the decisions are: calibration, ranking, diversity, and where the answers came from.

Pure functions over plain arrays: numpy arrays and torch tensors go in, numpy float64 comes out.
They know nothing of policies, networks or files, and import nothing of quorate.
"""

from quorate.measures.calibration import CalibrationMeter, ece, exit_ece, stage_ece
from quorate.measures.diversity import ppd
from quorate.measures.ranking import aurc, auroc
from quorate.measures.ratios import ExitRatios, PivotRatios, exit_ratios, pivot_ratios

__all__ = [
    "CalibrationMeter",
    "ExitRatios",
    "PivotRatios",
    "aurc",
    "auroc",
    "ece",
    "exit_ece",
    "exit_ratios",
    "pivot_ratios",
    "ppd",
    "stage_ece",
]
