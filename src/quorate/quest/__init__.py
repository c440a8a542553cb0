"""How to find it: a supernet, a posterior over architectures, and committees that disagree at every exit.

    from quorate.quest import SearchConfig
    from quorate.quest.search import search

Read in this order: :mod:`~quorate.quest.config` (what can be said about a search), :mod:`~quorate.quest.concrete`
(samples), :mod:`~quorate.quest.penalty` (costs), :mod:`~quorate.quest.mixing` and :mod:`~quorate.quest.supernet` (the
network), :mod:`~quorate.quest.fitting` (phase 1), :mod:`~quorate.quest.posterior` (phase 2),
:mod:`~quorate.quest.density`, :mod:`~quorate.quest.svgd` and :mod:`~quorate.quest.decode` (phase 3),
:mod:`~quorate.quest.scoring` and :mod:`~quorate.quest.selecting` (committees), :mod:`~quorate.quest.search` (all of it,
kept on disk).

Nothing here is imported before it is asked for: a configuration needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quorate.quest.config import SELECTORS, SearchConfig
    from quorate.quest.decode import decode, distinct
    from quorate.quest.scoring import Row, Scorer
    from quorate.quest.search import Found, memory_needed
    from quorate.quest.selecting import Problem, selectors
    from quorate.quest.supernet import Supernet

__all__ = [
    "SELECTORS",
    "Found",
    "Problem",
    "Row",
    "Scorer",
    "SearchConfig",
    "Supernet",
    "decode",
    "distinct",
    "memory_needed",
    "selectors",
]

_HOMES = {
    "config": ("SELECTORS", "SearchConfig"),
    "decode": ("decode", "distinct"),
    "scoring": ("Row", "Scorer"),
    "search": ("Found", "memory_needed"),
    "selecting": ("Problem", "selectors"),
    "supernet": ("Supernet",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"quorate.quest.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
