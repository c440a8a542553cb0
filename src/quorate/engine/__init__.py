"""How to run it: only what the vote needs. Sources that run networks, committees, and bundles to ship.

Nothing here imports torch before a network of torch is used.
"""

from quorate.engine.answer import Answer
from quorate.engine.committee import Committee
from quorate.engine.networks import Networks
from quorate.engine.progress import Fault
from quorate.engine.sources import Eager, Lazy
from quorate.store.run import InputSpec

__all__ = ["Answer", "Committee", "Eager", "Fault", "InputSpec", "Lazy", "Networks"]
