"""A fork with a renamed package gets code with that name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.releases import PATCHES, REFERENCE, answer, checked, fingerprints, run, states_in, without_record
from support.sweeps import representatives, swept
from support.toys import MIRROR, SOURCES, add_patch, everything, rewriting, statement, write_package

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from pathlib import Path

    from support.releases import Releases

NAME = "acme_sglang"
USER = "srt/managers/user.py"
IMPORT = "from sglang.srt.managers.mirror import Mirror"
ALL = tuple(patch.id for patch in PATCHES if patch.default)
FEW = tuple(name for name in ALL if name in representatives(PATCHES))


def renamed(
    folder: Path, own: bytes = b"from acme_sglang.srt.managers.mirror import depth\n\nwidth = depth\n"
) -> Path:
    """Write a small package under another name, one file of which imports from another."""
    return write_package(folder / NAME, SOURCES | {USER: own})


@pytest.fixture
def patches(tmp_path: Path) -> Path:
    """Patches that import by upstream's name, above the code and inside."""
    folder = tmp_path / "patches"
    outer = f'{rewriting("outer", USER, "width = $x", "width = Mirror.copies")}\nimports = ["{IMPORT}"]'
    inner = statement(
        "insert-before", "inner", f"{MIRROR}::Mirror.host", "return $value", f"{IMPORT} as Own\nassert Own"
    )
    runtime = f"{rewriting('runtime', MIRROR, 'depth = 1', 'depth = patchkit_api.out_graph_draft_steps')}\n"
    runtime += 'imports = ["from patchkit.runtime import api_1 as patchkit_api"]'
    add_patch(folder, "t-named", outer, inner, runtime)
    return folder


def test_what_is_written_imports_by_the_name_of_the_package(tmp_path: Path, patches: Path) -> None:
    package = renamed(tmp_path)
    before = everything(package)
    run("apply", package, "t-named", "--patches", patches)
    for file in (USER, MIRROR):
        text = (package / file).read_text()
        assert "acme_sglang.srt.managers.mirror import Mirror" in text
        assert not re.search(r"\bsglang\.srt", text)
    assert answer("apply", package, "t-named", "--patches", patches)["changed_files"] == []
    assert states_in(answer("status", package, "--patches", patches))["t-named"] == "applied"
    run("revert", package, "--patches", patches)
    assert {k: v for k, v in everything(package).items() if not k.startswith(".patchkit")} == before


def test_a_runtime_inside_is_imported_by_the_name_of_the_package(tmp_path: Path, patches: Path) -> None:
    package = renamed(tmp_path)
    run("apply", package, "t-named", "--runtime", "vendored", "--patches", patches)
    assert "from acme_sglang._patchkit.runtime import api_1" in (package / MIRROR).read_text()
    checks = answer("verify", package, "--patches", patches, code=0)["checks"]
    assert not [check for check in checks if check["outcome"] == "failed"]
    run("apply", package, "t-named", "--runtime", "import", "--patches", patches, code=3)
    run("revert", package, "--patches", patches)


def test_a_copy_in_a_folder_of_another_name_keeps_upstream_s(tmp_path: Path, patches: Path) -> None:
    package = renamed(tmp_path, b"from sglang.srt.managers.mirror import depth\n\nwidth = depth\n")
    run("apply", package, "t-named", "--patches", patches)
    assert IMPORT in (package / USER).read_text()


def test_a_name_in_a_docstring_is_none_of_the_package(tmp_path: Path) -> None:
    example = b'"""Use it so:\n\nfrom sglang.srt.managers.mirror import depth\n"""\n'
    code = b"from acme_sglang.srt.managers import x\n"
    assert open_tree(renamed(tmp_path, example + code)).name == NAME


def test_upstreams_name_in_a_docstring_of_a_renamed_package_is_no_second_name(tmp_path: Path) -> None:
    package = renamed(tmp_path)
    (package / "srt/managers/example.py").write_text(
        '"""Use it so:\n\nfrom sglang.srt.managers import user\n"""\n'
    )
    assert open_tree(package).name == NAME


def test_a_package_of_two_names_is_refused(tmp_path: Path, patches: Path) -> None:
    both = b"from acme_sglang.srt.managers.mirror import depth\nfrom sglang.srt.managers import mirror\n"
    package = renamed(tmp_path, both)
    before = everything(package)
    for words in (("apply", package, "t-named"), ("status", package), ("diff", package)):
        refused = run(*words, "--patches", patches, code=4)
        assert "as acme_sglang.srt and as sglang.srt" in refused.stderr
    assert everything(package) == before


@pytest.mark.parametrize("names", swept([ALL, FEW], FEW.__eq__), ids=["all", "few"])
def test_a_renamed_release_takes_every_patch_is_verified_and_gives_them_back(
    releases: Releases, tmp_path: Path, names: tuple[str, ...]
) -> None:
    root = tmp_path / "fork"
    releases.copy(REFERENCE, root)
    package = (root / "sglang").rename(root / NAME)
    for path in package.rglob("*.py"):
        text = path.read_bytes()
        path.write_bytes(re.sub(rb"\b(from|import) sglang\b", rb"\1 acme_sglang", text))
    before = without_record(fingerprints(root))
    reply = answer("apply", package, *names)
    assert set(reply["changed_files"])
    for file in reply["changed_files"]:
        assert not re.search(rb"\b(from|import) sglang\b", (package / file).read_bytes()), file
    assert answer("apply", package, *names)["changed_files"] == []
    for name in ("imports", "postconditions", "reads"):
        assert checked(package, name).findings == ()
    run("revert", package)
    assert without_record(fingerprints(root)) == before
