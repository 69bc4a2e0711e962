"""What `scripts/history.py` asks of every tree that patches are pending on."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from support.toys import COPIES, TOYS

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

HISTORY = Path(__file__).parents[2] / "scripts" / "history.py"


@pytest.fixture
def history() -> Any:
    spec = importlib.util.spec_from_file_location("history", HISTORY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_tree_that_patches_fit_has_no_faults(history: Any, tree: CheckoutTree) -> None:
    assert history.faults(tree, TOYS) == ()


def test_opt_in_patches_are_not_evaluated(history: Any, tree: CheckoutTree) -> None:
    assert history.faults(tree, (msgspec.structs.replace(COPIES, default=False),)) == ()


def test_a_patch_that_is_not_applied_once_it_is_made_is_a_fault(
    history: Any, tree: CheckoutTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "inspect", lambda _tree, patches: history.make_plan(tree, patches).patches)
    found = history.faults(tree, (COPIES,))
    assert found == (f"{COPIES.id} after apply is pending: ",)
