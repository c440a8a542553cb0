"""quorate: ensembles of early-exit neural networks that stop as soon as enough of them agree.

A newcomer reads the packages in the order in which a sample meets them:

- :mod:`quorate.data`: on what: data sets, splits;
- :mod:`quorate.nets`: what decides: early-exit learners, their costs;
- :mod:`quorate.squad`: how to decide: policies over votes, their costs, tuning;
- :mod:`quorate.engine`: how to run it: committees that run only what a vote needs, and bundles to ship;
- :mod:`quorate.train`: how to train;
- :mod:`quorate.quest`: how to find committees;
- :mod:`quorate.measures`: how good the decisions are;
- :mod:`quorate.store`: what stands on disk;
- :mod:`quorate.report`: how to show it;
- :mod:`quorate.recipes`: whole runs by name; :mod:`quorate.cli`: the command line.
"""

from typing import TYPE_CHECKING, Any

from quorate.errors import QuorateError

if TYPE_CHECKING:
    from quorate.engine.loading import load

__all__ = ["QuorateError", "__version__", "load"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "load":
        from quorate.engine.loading import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
