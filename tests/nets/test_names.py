import importlib
import pkgutil

import pytest

import quorate.nets
from quorate import nets

MODULES = [
    importlib.import_module(f"quorate.nets.{found.name}") for found in pkgutil.iter_modules(quorate.nets.__path__)
]


def test_every_public_name_is_there():
    for name in nets.__all__:
        assert getattr(nets, name) is not None
    assert set(dir(nets)) == set(nets.__all__)
    with pytest.raises(AttributeError, match="no attribute 'DartLearner'"):
        _ = nets.DartLearner


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_modules_say_what_they_do_not_know_and_export_what_they_have(module):
    assert "know" in module.__doc__
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize(
    "name", [n for n in nets.__all__ if callable(getattr(nets, n)) and n not in ("Inputs", "AdaptedLearner")]
)
def test_every_public_function_has_an_example(name):
    assert ">>>" in getattr(nets, name).__doc__


def test_no_module_bears_the_name_of_a_public_function():
    assert not {module.__name__.rpartition(".")[2] for module in MODULES} & set(nets.__all__)
