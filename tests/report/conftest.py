import pytest

from tests.report.cases import HOSTILE, document


@pytest.fixture(scope="session")
def results():
    return document()


@pytest.fixture(scope="session")
def hostile():
    """A run, a data set, learners and classes with names that would like to be markup."""
    return document(about={"run": HOSTILE, "learners": [HOSTILE] * 3, "data": {"name": HOSTILE}}, classes=HOSTILE)
