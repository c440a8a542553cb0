"""What stands on disk: nothing there executes, every write is atomic, every read is distrustful.

A file that is missing, cut off, foreign, too new or made to do harm raises one :class:`quorate.errors.QuorateError`
of one line. This package knows the value types of :mod:`quorate.squad`, and nothing of networks.
"""

from quorate.store.atomic import write_atomic
from quorate.store.votes import read_votes, write_votes

__all__ = ["read_votes", "write_atomic", "write_votes"]
