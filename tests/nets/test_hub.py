"""Packages whose builds do not match, with made-up ones in place of torchvision."""

import sys

import pytest

from quorate.nets import hub, import_vision

MATCHING = "fine = True\n"
MISMATCHED = """
import torchvision.part
from quorate.nets import hub
if not hub.declared:
    raise RuntimeError("operator torchvision::nms does not exist")
"""


@pytest.fixture
def made_up(tmp_path, monkeypatch):
    """A function that puts a package named torchvision in place, forgotten after the test."""
    kept = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torchvision"}
    for name in kept:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)

    def write(code):
        (tmp_path / "torchvision").mkdir()
        (tmp_path / "torchvision" / "__init__.py").write_text(code)
        (tmp_path / "torchvision" / "part.py").write_text("")

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    sys.modules.update(kept)


@pytest.fixture
def declarations(monkeypatch):
    monkeypatch.setattr(hub, "declared", False, raising=False)
    monkeypatch.setattr(hub, "_declare", lambda: setattr(hub, "declared", True))


def test_a_matching_build_declares_its_own_operators(made_up, declarations):
    made_up(MATCHING)
    assert import_vision("torchvision").fine
    assert not hub.declared


def test_a_build_for_another_torch_is_imported_again(made_up, declarations):
    made_up(MISMATCHED)
    import_vision("torchvision")
    assert hub.declared


def test_other_failures_are_not_hidden(made_up, declarations):
    made_up("raise RuntimeError('broken')")
    with pytest.raises(RuntimeError, match="broken"):
        import_vision("math")
    assert not hub.declared


def test_a_package_that_is_missing():
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        import_vision("nowhere_to_be_found")
