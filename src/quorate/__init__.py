"""quorate: ensembles of early-exit neural networks that stop as soon as enough of them agree.

A newcomer reads the packages in the order in which a sample meets them:

- :mod:`quorate.data`: on what: data sets, splits;
- :mod:`quorate.nets`: what decides: early-exit learners, their costs;
- :mod:`quorate.squad`: how to decide: policies over votes, their costs, tuning;
- :mod:`quorate.train`: how to train;
- :mod:`quorate.measures`: how good the decisions are;
- :mod:`quorate.store`: what stands on disk;
- :mod:`quorate.report`: how to show it; :mod:`quorate.cli`: the command line.
"""

from quorate.errors import QuorateError

__all__ = ["QuorateError", "__version__"]

__version__ = "0.1.0"
