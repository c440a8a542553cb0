"""quorate: ensembles of early-exit neural networks that stop as soon as enough of them agree.

A newcomer reads the packages in the order in which a sample meets them:

- :mod:`quorate.squad`: how to decide (policies over votes, their costs);
- :mod:`quorate.measures`: how good the decisions are;
- :mod:`quorate.store`: what stands on disk.
"""

from quorate.errors import QuorateError

__all__ = ["QuorateError", "__version__"]

__version__ = "0.1.0"
