"""The errors of artefacts: files, directories and data that are not what they should be.

Callers' mistakes are ``ValueError`` and ``TypeError``; what lies on disk is not the caller's mistake.
"""

__all__ = ["QuorateError"]


class QuorateError(Exception):
    """A file, a run or a data set is missing, broken, foreign or too new. The message says what to do."""
