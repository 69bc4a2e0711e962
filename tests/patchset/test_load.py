from __future__ import annotations

import json
import pickle
import re
import sys
from typing import TYPE_CHECKING

import pytest
from support.programs import rewritten
from support.toys import add_patch, patch_text

from patchkit.cli.schemas import json_schema
from patchkit.codemods.kinds import KINDS
from patchkit.codemods.kinds.rewrite import Rewrite
from patchkit.errors import UsageError, spelling_hint
from patchkit.patchset import convert, load, schema
from patchkit.patchset.patch import Address, Edit
from patchkit.patchset.select import PatchSet

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from pathlib import Path

SHELF = """\
[edit.wide]
kind = "class-attribute"
why = "toy"
at = "srt/shelf.py::Shelf"
code = "wide = 1"
"""


@pytest.fixture
def built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Toy patches in place of the built-in ones: `b-desk`, which `a-lamp` and `c-lock` require, and one that is off."""
    folder = tmp_path / "built-in"
    add_patch(folder, "a-lamp", SHELF, requires='["b-desk"]')
    add_patch(folder, "b-desk", SHELF)
    add_patch(folder, "c-lock", SHELF, requires='["b-desk"]')
    add_patch(folder, "d-rug", SHELF, default="false")
    monkeypatch.setattr(load, "BUILT_IN", folder)
    return folder


def ids(*identifiers: str) -> list[str]:
    return [patch.id for patch in load.patches().select(identifiers)]


def refusal(*folders: Path) -> str:
    """Load and return the refusal, which is one sentence."""
    with pytest.raises(UsageError) as caught:
        load.patches(folders)
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return message


def malformed(folder: Path, text: str) -> str:
    """Return the refusal of a patch file with ``text``, which names the file."""
    path = folder / "own" / "patch.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    message = refusal(folder)
    assert message.startswith(f"{path}: ")
    return message


def edit_of(kind: str, **keys: str) -> str:
    """Return the text of an edit ``n``; ``keys`` are TOML values."""
    given = {"kind": f'"{kind}"', "why": '"toy"', "at": '"srt/shelf.py"', **keys}
    return "\n".join(["[edit.n]", *(f"{key} = {value}" for key, value in given.items())])


# ---- the patches at hand


def test_every_built_in_patch_is_well_formed() -> None:
    patches = load.patches()
    for patch in patches:
        convert.check(patch, load.BUILT_IN / patch.id / "patch.toml")
    assert {"25925", "26241", "26128", "26824", "25002"} <= set(patches.ids)


def test_patch_comes_after_those_that_it_requires(built_in: Path) -> None:
    assert load.patches().ids == ("b-desk", "a-lamp", "c-lock", "d-rug")


def test_all_are_the_ones_on_by_default(built_in: Path) -> None:
    assert ids() == ["b-desk", "a-lamp", "c-lock"]


def test_patch_brings_what_it_requires(built_in: Path) -> None:
    assert ids("a-lamp") == ["b-desk", "a-lamp"]
    assert ids("b-desk") == ["b-desk"]


def test_an_opt_in_patch_can_be_requested(built_in: Path) -> None:
    assert ids("d-rug") == ["d-rug"]


def test_a_patch_requested_twice_is_selected_once(built_in: Path) -> None:
    assert ids("d-rug", "d-rug") == ["d-rug"]


def test_unknown_patch_is_refused_with_the_nearest_name(built_in: Path) -> None:
    with pytest.raises(
        UsageError, match=r"^no patch is called 'b-dsk': did you mean b-desk\? .*patchkit show"
    ):
        load.patches().get("b-dsk")
    with pytest.raises(UsageError, match=r"did you mean b-desk\?"):
        load.patches().select(["a-lamp", "desk"])


def test_of_names_that_are_equally_near_one_with_swapped_letters_is_named() -> None:
    assert spelling_hint("26182", ["26824", "26128", "26241"]) == "did you mean 26128? "


def test_empty_set_has_no_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"^no patch is called 'x': patchkit show"):
        PatchSet((), "").get("x")


def test_digest_is_that_of_the_texts(built_in: Path) -> None:
    before = load.patches().digest
    assert load.patches().digest == before
    path = built_in / "d-rug" / "patch.toml"
    path.write_text(path.read_text() + "# more\n")
    assert load.patches().digest != before


# ---- folders of one's own


def test_folder_of_patches_is_added(built_in: Path, tmp_path: Path) -> None:
    add_patch(tmp_path / "own", "x-one", SHELF, requires='["a-lamp"]')
    add_patch(tmp_path / "own", "x-two", SHELF)
    assert load.patches([tmp_path / "own"]).ids == ("b-desk", "a-lamp", "c-lock", "d-rug", "x-one", "x-two")


def test_folder_of_one_patch_is_added(built_in: Path, tmp_path: Path) -> None:
    path = add_patch(tmp_path / "own", "x-one", SHELF)
    assert "x-one" in load.patches([path.parent]).ids


def test_order_of_folders_does_not_count(built_in: Path, tmp_path: Path) -> None:
    add_patch(tmp_path / "own", "x-two", SHELF)
    add_patch(tmp_path / "other", "x-one", SHELF)
    folders = [tmp_path / "own", tmp_path / "other"]
    assert load.patches(folders).ids == load.patches(folders[::-1]).ids


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_folder_without_a_patch_is_refused(built_in: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / name).startswith(f"{tmp_path / name}: no patch.toml in this folder")


def test_id_that_is_taken_is_refused(built_in: Path, tmp_path: Path) -> None:
    add_patch(tmp_path / "own", "b-desk", SHELF)
    message = refusal(tmp_path / "own")
    assert "key `id`: 'b-desk' is taken by" in message
    assert str(built_in / "b-desk" / "patch.toml") in message


def test_id_that_two_built_in_patches_have_is_refused(built_in: Path) -> None:
    path = add_patch(built_in, "e-bolt", SHELF)
    path.write_text(patch_text("b-desk", SHELF))
    assert refusal().startswith(
        f"{path}: key `id`: 'b-desk' is taken by {built_in / 'b-desk' / 'patch.toml'}"
    )


def test_patch_that_does_not_exist_is_refused(built_in: Path, tmp_path: Path) -> None:
    path = add_patch(tmp_path / "own", "x-one", SHELF, requires='["b-dsk"]')
    assert refusal(tmp_path / "own").startswith(f"{path}: key `requires`: no patch is called 'b-dsk'")


def test_patches_that_require_each_other_are_refused(built_in: Path, tmp_path: Path) -> None:
    add_patch(tmp_path / "own", "x-one", SHELF, requires='["x-two"]')
    add_patch(tmp_path / "own", "x-two", SHELF, requires='["x-one"]')
    message = refusal(tmp_path / "own")
    assert "key `requires`" in message
    assert "x-one -> x-two" in message


def test_patch_that_requires_itself_is_refused(built_in: Path, tmp_path: Path) -> None:
    add_patch(tmp_path / "own", "x-one", SHELF, requires='["x-one"]')
    assert "key `requires`" in refusal(tmp_path / "own")


# ---- files that are not a patch


def test_file_that_cannot_be_read_is_refused(built_in: Path, tmp_path: Path) -> None:
    link = tmp_path / "own" / "loop" / "patch.toml"
    link.parent.mkdir(parents=True)
    link.symlink_to(link)
    assert "patch.toml" in refusal(tmp_path / "own")


@pytest.mark.parametrize("content", [b"id = ", b"id = 'a'\nid = 'b'\n", b"title = '\xff'\n"])
def test_file_that_is_not_toml_is_refused(built_in: Path, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own" / "x" / "patch.toml"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert refusal(tmp_path / "own").startswith(f"{path}: not TOML (")


@pytest.mark.parametrize("key", ["id", "title", "why", "risk", "verify"])
def test_patch_without_a_key_is_refused(built_in: Path, tmp_path: Path, key: str) -> None:
    lines = patch_text("x-one", SHELF).splitlines()
    head = lines.index("[edit.wide]")
    text = "\n".join([line for line in lines[:head] if not line.startswith(f"{key} =")] + lines[head:])
    assert f"key `{key}`: missing" in malformed(tmp_path / "own", text)


def test_patch_without_edits_is_refused(built_in: Path, tmp_path: Path) -> None:
    assert "`edit`" in malformed(tmp_path / "own", patch_text("x-one"))
    assert "key `edit`: " in malformed(tmp_path / "own", patch_text("x-one", edit="{}"))


@pytest.mark.parametrize("name", ["", "x one", "../x", "-x", "x\\ny"])
def test_id_that_could_not_be_typed_is_refused(built_in: Path, tmp_path: Path, name: str) -> None:
    assert "key `id`: " in malformed(tmp_path / "own", patch_text(name, SHELF))


@pytest.mark.parametrize(
    ("keys", "where"),
    [
        ({"titel": '"x"'}, "unknown key `titel`: did you mean `title`? the keys are `affects`, "),
        ({"default": '"yes"'}, "key `default`: "),
        ({"requires": '"b-desk"'}, "key `requires`: "),
        ({"shapes": "{ low = 1 }"}, "key `shapes`: "),
        ({"applies_when": "[{ has = 'x' }]"}, "applies_when[0]: key `at`: missing"),
        ({"any_shape_of": '["tall"]'}, "key `any_shape_of`: `tall` is not one of [shapes] (none)"),
        (
            {"applies_when": "[{ at = 'srt/a.py', has = 'a = = b' }]"},
            "fact about srt/a.py: key `has`: not Python",
        ),
        (
            {"upstream_when": "[{ at = 'srt/a.py', lacks = 'if' }]"},
            "fact about srt/a.py: key `lacks`: not Python",
        ),
        ({"shapes": "{ low = ['/etc/a.py'] }"}, "key `at`: '/etc/a.py' is not"),
        ({"affects": "{}"}, "key `symptom`: missing"),
        ({"affects": "{ symptom = 'x', fixed_in = 'main' }"}, "affects: key `fixed_in`: "),
        (
            {"affects": "{ symptom = 'x', when = 'page_size >' }"},
            "affects: 'page_size >' is not a Python expression",
        ),
        ({"affects": "{ symptom = 'x', when = 'len(a) > 1' }"}, "affects: 'len(a)': a condition consists of"),
        ({"affects": '{ symptom = "x\\ny" }'}, "affects: key `symptom`: contains a line break"),
        ({"shapes": "{ low = ['srt/a.py::'] }"}, "key `at`: 'srt/a.py::' is not `file::Class.method`"),
        ({"upstream": '"javascript:alert(1)"'}, "key `upstream`: 'javascript:alert(1)' is not an http"),
        ({"upstream": '"https://example.org/a b"'}, "key `upstream`: 'https://example.org/a b' is not"),
        ({"upstream": '"https://example.org/a\\n"'}, "key `upstream`: 'https://example.org/a\\n' is not"),
        ({"upstream": '"pull/7"'}, "key `upstream`: 'pull/7' is not an http"),
    ],
)
def test_key_of_a_patch_with_a_wrong_value_is_refused(
    built_in: Path, tmp_path: Path, keys: dict[str, str], where: str
) -> None:
    assert where in malformed(tmp_path / "own", patch_text("x-one", SHELF, **keys))


def test_edit_name_used_twice_is_refused(built_in: Path, tmp_path: Path) -> None:
    message = malformed(tmp_path / "own", patch_text("x-one", SHELF, SHELF))
    assert "not TOML (" in message
    assert "declare ('edit', 'wide') twice" in message


def test_schema_that_is_not_known_is_refused(built_in: Path, tmp_path: Path) -> None:
    text = patch_text("x-one", SHELF).replace("schema = 1", "schema = 2")
    assert "key `schema`: " in malformed(tmp_path / "own", text)


def test_error_for_a_patch_of_the_former_format_describes_the_conversion(
    built_in: Path, tmp_path: Path
) -> None:
    text = patch_text("x-one", '[[edit]]\nname = "wide"').replace("schema = 1\n", "")
    message = malformed(tmp_path / "own", text)
    assert "key `schema`: missing" in message
    assert "`schema = 1`" in message
    assert "[edit.NAME]" in message


def test_unknown_kind_is_refused(built_in: Path, tmp_path: Path) -> None:
    message = malformed(tmp_path / "own", patch_text("x-one", edit_of("rewritte", code='"x"')))
    assert "edit.n: key `kind`: no kind is called 'rewritte': did you mean rewrite? the kinds are " in message
    assert all(kind in message for kind in KINDS)


def test_edit_without_a_kind_is_refused(built_in: Path, tmp_path: Path) -> None:
    assert "`kind`" in malformed(tmp_path / "own", patch_text("x-one", '[edit.n]\nwhy = "toy"'))


CODE = "'x.mend()'"
FIND = "'x.break_()'"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (edit_of("rewrite", cod=CODE), "edit.n: unknown key `cod`: did you mean `code`? the keys are `"),
        (edit_of("rewrite", find=FIND, code=CODE, every='"yes"'), "edit.n: key `every`: "),
        (edit_of("insert-after", find=FIND, code=CODE, every="true"), "unknown key `every`"),
        (
            edit_of("rewrite", find=FIND, code=CODE, shape='"tall"'),
            "key `edit.n.shape`: `tall` is not one of [shapes]",
        ),
        (edit_of("rewrite", find=FIND, code=CODE, why='"a\\nb"'), "key `why`: contains a line break"),
        (edit_of("rewrite", find=FIND, code=CODE, at='"../a.py"'), "key `at`: '../a.py' is not"),
        (edit_of("rewrite", find=FIND, code=CODE, at='"/a.py"'), "key `at`: '/a.py' is not"),
        (
            edit_of("rewrite", find=FIND, code=CODE, at='["srt/a.py", "srt/a"]'),
            "key `at`: 'srt/a' is not",
        ),
        (edit_of("rewrite", find=FIND, code=CODE, at="[]"), "edit.n: key `at`: "),
        (edit_of("rewrite", find=FIND, code=CODE, at="1"), "edit.n: key `at`: "),
        (edit_of("rewrite", find=FIND, code=CODE, at='"srt/a.py::a b"'), "key `at`: 'srt/a.py::a b' is not"),
        (
            edit_of("rewrite", find=FIND, code=CODE, at='"python/sglang/srt/a.py::f"'),
            "starts above the package folder; write 'srt/a.py'",
        ),
        (edit_of("rewrite", find=FIND, code=CODE, sites='["srt/a.py"]'), "one of the keys `at` and `sites`"),
        (
            edit_of("rewrite", find=FIND, code=CODE).replace("\nat =", "\n# at ="),
            "one of the keys `at` and `sites`",
        ),
        (
            edit_of("rewrite", find=FIND, code=CODE, sites="[{ shape = 'tall' }]").replace(
                "\nat =", "\n# at ="
            ),
            "edit.n.sites[0]: key `at`: missing",
        ),
        (edit_of("rewrite", find=FIND, code=CODE, imports="['import']"), "key `imports`: not Python"),
        (edit_of("rewrite", find=FIND, code=CODE, imports="['x = 1']"), "key `imports`: not one import"),
        (edit_of("rewrite"), "key `find`: the pattern is empty"),
        (edit_of("rewrite", find=FIND), "key `code`: the pattern is empty"),
        (edit_of("rewrite", code=CODE), "key `find`: the pattern is empty"),
        (edit_of("rewrite", find="'if'", code=CODE), "key `find`: not Python with $names"),
        (edit_of("rewrite", find=FIND, code="'if'"), "key `code`: not Python with $names"),
        (edit_of("rewrite", find=FIND, code=CODE, already="['if']"), "key `already`: not Python with $names"),
        (edit_of("rewrite", find=FIND, code=CODE, context="['if']"), "key `context`: not Python with $names"),
        (edit_of("rewrite", find=FIND, code="'$y.mend()'"), "key `code`: nothing binds $y"),
        (edit_of("rewrite", find="'$_.x()'", code="'$_.y()'"), "key `code`: nothing binds $_"),
        (edit_of("rewrite", find="'$y.x()'", code="'$$y'"), "key `code`: nothing binds $$y"),
        (edit_of("rewrite", find='"a()\\n...\\nb()"', code=CODE), "key `find`: `code` would delete"),
        (edit_of("rewrite", find="'f($x, ...)'", code="'g($x)'"), "key `find`: `code` would delete"),
        (edit_of("rewrite", find="'f($x)'", code="'g($x)'", target='"y"'), "key `target`: `find` has no $y"),
        (
            edit_of("rewrite", find="'f($x)'", code="'g($x)'", target='"x"', context="['h($x)']"),
            "key `target`: `context` binds $x, so `find` has no place of its own for it",
        ),
        (edit_of("insert-before", find="'f($x)'", code="'g($x)'", target='"x"'), "unknown key `target`"),
        (
            edit_of("insert-after", variants="[{ find = 'f($x)', code = 'g($x)', target = 'x' }]"),
            "edit.n.variants[0]: unknown key `target`: the keys are `code`, `find`",
        ),
        (edit_of("rewrite", variants="[{ find = 'a()' }]"), "key `code`: missing"),
        (edit_of("rewrite", variants="[{ find = 'a()', code = '$b()' }]"), "key `code`: nothing binds $b"),
        (edit_of("insert-after", find="'$x.a()'", code="'$y.b()'"), "key `code`: nothing binds $y"),
        (edit_of("insert-before", find=FIND, code="''"), "key `code`: the pattern is empty"),
        (edit_of("none-guard", find=FIND), "key `value`: missing"),
        (edit_of("none-guard", find=FIND, value="'$x'"), "key `value`: nothing binds $x"),
        (edit_of("none-guard", find=FIND, value="'a b'"), "key `value`: not Python"),
        (edit_of("insert-first", code="''"), "key `code`: the pattern is empty"),
        (edit_of("insert-first", code="'$x()'"), "key `code`: nothing binds $x"),
        (edit_of("class-attribute", code="'def f(): ...'"), "key `code`: not one assignment"),
        (edit_of("class-attribute", code="'a = '"), "key `code`: not Python"),
        (edit_of("method", code="'a = 1'"), "key `code`: not only methods"),
        (edit_of("base-class", base="'a b'"), "key `base`: not Python"),
        (edit_of("parameter", code="'days'"), "key `code`: not one parameter with a default"),
        (edit_of("module-code", code="'start()'"), "key `code`: not only definitions"),
        (
            edit_of("module-code", code="'a = 1'", at="'srt/a.py::Shelf'"),
            "key `at`: this kind edits a whole module, so `at` cannot name",
        ),
        (edit_of("import", code="'from a import *'"), "key `code`: not one import"),
        (
            edit_of("import", code="'import a'", at="'srt/a.py::Shelf'"),
            "key `at`: this kind edits a whole module, so `at` cannot name",
        ),
        (edit_of("call-argument", find="'$x'", argument="'a=1'"), "key `find`: not one call"),
        (edit_of("call-argument", find="['f()', 'x = f()']", argument="'a=1'"), "key `find`: not one call"),
        (edit_of("call-argument", find="'f(...)'", argument="'1'"), "key `argument`: not one `name=value`"),
        (
            edit_of("call-argument", find="'f(...)'", argument="'a=1'", already="['g']"),
            "key `already`: not one call",
        ),
        (edit_of("argument-value", find="'f'", argument="'a'", code="'1'"), "key `find`: not one call"),
        (
            edit_of("argument-value", find="'f(...)'", argument="'a'", code="'x = 1'"),
            "key `code`: not one expression",
        ),
        (
            edit_of("argument-value", find="'f(...)'", argument="'a'", code="'$y'"),
            "key `code`: nothing binds $y",
        ),
    ],
)
def test_malformed_edit_is_refused_by_key(built_in: Path, tmp_path: Path, edit: str, reason: str) -> None:
    assert reason in malformed(tmp_path / "own", patch_text("x-one", edit))


# ---- edits of built-in patches, which are converted when one of them is first asked for


@pytest.mark.parametrize(
    "edit",
    [
        edit_of("rewritte", code=CODE),
        edit_of("rewrite", cod=CODE),
        edit_of("rewrite", find=FIND, code=CODE, every='"yes"'),
        edit_of("insert-after", variants="[{ find = 'f($x)', code = 'g($x)', target = 'x' }]"),
        edit_of("none-guard", find=FIND),
        edit_of("rewrite", find=FIND, code=CODE, sites='[{ at = "srt/a.py", names = { x = "y" } }]').replace(
            "\nat =", "\n# at ="
        ),
        "[edit.n]\nwhy = 'toy'\nat = 'srt/a.py'",
    ],
)
@pytest.mark.parametrize("name", ["a-lamp", "d-rug"])
def test_malformed_edit_of_a_built_in_patch_is_refused_as_one_of_a_folder(
    built_in: Path, tmp_path: Path, edit: str, name: str
) -> None:
    text = patch_text("d-rug", edit)
    message = malformed(tmp_path, patch_text("x-one", edit))
    path = built_in / "d-rug" / "patch.toml"
    path.write_text(text)
    patches = load.patches()
    for key in ("kind", "imports"):
        with pytest.raises(UsageError) as caught:
            getattr(patches.get(name).edits[0], key)
        assert str(caught.value) == message.replace(str(tmp_path / "own" / "patch.toml"), str(path))


@pytest.mark.parametrize(
    ("keys", "edit"),
    [
        ({"tilte": "'x'"}, SHELF),
        ({"id": "3"}, SHELF),
        ({"shapes": "{ low = 1 }"}, SHELF),
        ({}, edit_of("rewrite", find=FIND, code=CODE, at="1")),
        ({}, edit_of("rewrite", find=FIND, code=CODE, why="1")),
        ({}, edit_of("rewrite", find=FIND, code=CODE, shape="'tall'")),
        ({}, edit_of("rewrite", find=FIND, code=CODE, at="'srt/a.py::a b'")),
        ({}, edit_of("rewrite", find=FIND, code=CODE, sites="['srt/a.py']")),
        ({}, "edit = 3"),
        ({}, "[edit]\nn = 3"),
        ({}, '[edit."a b"]\nkind = "import"\nwhy = "toy"\nat = "srt/a.py"\ncode = "import a"'),
        ({}, "[edit.n]\nkind = 'rewrite'\nat = 'srt/a.py'\nfind = 'f()'\ncode = 'g()'"),
    ],
)
def test_common_keys_are_refused_alike_in_a_built_in_patch_and_in_a_folder(
    built_in: Path, tmp_path: Path, keys: dict[str, str], edit: str
) -> None:
    message = malformed(tmp_path, patch_text("x-one", edit, **keys))
    path = built_in / "x-one" / "patch.toml"
    path.parent.mkdir()
    path.write_text(patch_text("x-one", edit, **keys))
    assert refusal() == message.replace(str(tmp_path / "own" / "patch.toml"), str(path))


def test_changes_of_built_in_edits_are_those_of_the_same_file_in_a_folder(tmp_path: Path) -> None:
    for patch in load.patches():
        path = load.BUILT_IN / patch.id / "patch.toml"
        whole_one = load.read(tomllib.loads(path.read_text(encoding="utf-8")), path)
        found = [(edit.name, edit.addresses, edit.kind, edit.imports) for edit in patch.edits]
        assert found == [(edit.name, edit.addresses, edit.kind, edit.imports) for edit in whole_one.edits]


@pytest.mark.parametrize("is_asked", [True, False])
def test_patches_go_to_another_process_with_their_edits(built_in: Path, *, is_asked: bool) -> None:
    patch = load.patches().get("a-lamp")
    if is_asked:
        assert patch.edits[0].kind
    (edit,) = pickle.loads(pickle.dumps(patch)).edits
    assert (edit.kind, edit.imports) == (patch.edits[0].kind, patch.edits[0].imports)


@pytest.mark.parametrize(
    "edit",
    [
        edit_of("rewrite", find="'$y.x()'", code="'''if $y:\n    $$found'''"),
        edit_of("rewrite", find="'''a($y)\n$$run\nb()'''", code="'''with $y:\n    $$run'''"),
        edit_of("rewrite", find="'f($x, ...)'", code="'g($x)'", target='"x"'),
        edit_of("rewrite", find="'$y.x()'", code="'$y.z($k)'", context="['$k = key()']"),
        edit_of("insert-after", find="'''if $x:\n    ...'''", code="'$x.done()'"),
        edit_of("none-guard", find="'$x.a += $y'", value="'$x.a'"),
        edit_of("call-argument", find="['f(...)', 'g()']", argument="'a=1'", already="['f(1)']"),
        edit_of("argument-value", find="'$f.g(..., a=$_)'", argument="'a'", code="'$value + $f.b'"),
        edit_of("import", code="'import a.b as c'"),
    ],
)
def test_well_formed_edit_is_taken(built_in: Path, tmp_path: Path, edit: str) -> None:
    add_patch(tmp_path / "own", "x-one", edit)
    assert "x-one" in load.patches([tmp_path / "own"]).ids


# ---- what the tables come to


def edits_of(folder: Path, *edits: str, **keys: str) -> dict[str, Edit]:
    add_patch(folder / "own", "x-one", *edits, **keys)
    return {edit.name: edit for edit in load.patches([folder / "own"]).get("x-one").edits}


def test_edit_is_named_after_its_table_and_has_its_site_as_one_text(built_in: Path, tmp_path: Path) -> None:
    (edit,) = edits_of(tmp_path, SHELF).values()
    assert (edit.name, edit.files, edit.scopes) == ("wide", ("srt/shelf.py",), ("Shelf",))


def test_places_of_one_name_are_files_of_one_address(built_in: Path, tmp_path: Path) -> None:
    at = '["srt/a.py::A.b", "srt/c.py::A.b", "srt/a.py::A.d"]'
    (edit,) = edits_of(tmp_path, edit_of("rewrite", find=FIND, code=CODE, at=at)).values()
    assert edit.addresses == (Address("A.b", ("srt/a.py", "srt/c.py")), Address("A.d", ("srt/a.py",)))


def test_each_site_is_an_edit_and_takes_what_it_leaves_out_from_the_table(
    built_in: Path, tmp_path: Path
) -> None:
    keys = 'at = ["srt/b.py", "srt/c.py"], optional = "none here", why = "another reason", shape = "low"'
    sites = f'["srt/a.py::f", {{ {keys} }}]'
    table = edit_of("rewrite", find=FIND, code=CODE, sites=sites).replace("\nat =", "\n# at =")
    first, second = edits_of(tmp_path, table, shapes="{ low = ['srt/a.py'] }").values()
    assert (first.name, first.files, first.why, first.optional, first.shapes) == (
        ("n.1", ("srt/a.py",), "toy", "", ())
    )
    assert (second.name, second.files, second.why, second.optional, second.shapes) == (
        ("n.2", ("srt/b.py", "srt/c.py"), "another reason", "none here", ("low",))
    )
    assert first.kind is second.kind


def test_names_of_a_site_stand_for_placeholders_of_its_edit_there(built_in: Path, tmp_path: Path) -> None:
    sites = """["srt/a.py", { at = "srt/a.py", names = { field = "fee", who = "reader" } }]"""
    table = edit_of(
        "rewrite",
        find=r'"$who.$field = $fields\n$$field"',
        code=r'"$who.$field = pay($fields)\n$$field"',
        variants="[{ find = '$who.$field += $fields', code = 'pay($who.$field, $fields)' }]",
        sites=sites,
    ).replace("\nat =", "\n# at =")
    whole, named = (edit.kind for edit in edits_of(tmp_path, table).values())
    assert isinstance(whole, Rewrite)
    assert isinstance(named, Rewrite)
    assert whole.find == "$who.$field = $fields\n$$field"
    assert (named.find, named.code) == ("reader.fee = $fields\n$$field", "reader.fee = pay($fields)\n$$field")
    assert [way.code for way in named.variants] == ["pay(reader.fee, $fields)"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("{ book = 'fee' }", "edit.n: key `names`: the edit has no $book"),
        ("{ x = 'fee.late' }", "edit.n: key `names`: x = 'fee.late': both must be identifiers"),
        ('{ x = "fee\\n" }', "edit.n: key `names`: x = 'fee\\n': both must be identifiers"),
        ("{ '$x' = 'fee' }", "edit.n: key `names`: $x = 'fee': both must be identifiers"),
        ("{ x = 1 }", "expected a string, found an integer"),
    ],
)
def test_invalid_names_and_names_of_no_placeholder_are_refused(
    built_in: Path, tmp_path: Path, names: str, reason: str
) -> None:
    sites = f'[{{ at = "srt/a.py", names = {names} }}]'
    table = edit_of("rewrite", find="'f($x)'", code="'g($x)'", sites=sites).replace("\nat =", "\n# at =")
    add_patch(tmp_path / "own", "x-one", table)
    with pytest.raises(UsageError, match=re.escape(reason)):
        load.patches([tmp_path / "own"])


@pytest.mark.parametrize(
    ("imports", "code", "is_brought"),
    [
        ("from a import b as c", "$x.mend(c)", True),
        ("from a import b as c", "$x.mend(b)", False),
        ("from a import b", "$x.mend(b.d)", True),
        ("from a import b", "$x.mend(ab, b_)", False),
        ("from a import (\n  b,\n  c as d,\n)", "$x.mend(d)", True),
        ("import a.b", "a.b.mend($x)", True),
        ("import a.b as c", "a.b.mend($x)", False),
    ],
)
def test_import_of_a_patch_comes_with_the_edits_that_use_it(
    built_in: Path, tmp_path: Path, imports: str, code: str, is_brought: bool
) -> None:
    listed = json.dumps([imports])
    (edit,) = edits_of(
        tmp_path, edit_of("rewrite", find="'$x.break_()'", code=f"'{code}'"), imports=listed
    ).values()
    assert edit.imports == ((imports,) if is_brought else ())


def test_import_of_a_patch_comes_with_every_kind_of_code(built_in: Path, tmp_path: Path) -> None:
    found = "find = 'f(x=$_)'\n"
    codes = {
        "insert-first": "code = 'tools.f()'",
        "none-guard": "find = 'f($x)'\nvalue = 'tools.f($x)'",
        "base-class": "base = 'tools.Base'",
        "call-argument": found + "argument = 'y=tools.f()'",
        "argument-value": found + "argument = 'x'\ncode = 'tools.f($value)'",
        "insert-after": "variants = [{ find = 'f($x)', code = 'tools.f($x)' }]",
    }
    tables = [
        f"[edit.{kind}]\nkind = '{kind}'\nwhy = 'toy'\nat = 'srt/a.py'\n{rest}"
        for kind, rest in codes.items()
    ]
    edits = edits_of(tmp_path, *tables, imports="['import tools']")
    assert {name: edit.imports for name, edit in edits.items()} == dict.fromkeys(codes, ("import tools",))


def test_finds_of_a_list_share_the_code(built_in: Path, tmp_path: Path) -> None:
    table = edit_of("rewrite", find="['old($x)', 'older($x)']", code="'new($x)'")
    (edit,) = edits_of(tmp_path, table).values()
    for source in ("old(1)\n", "older(1)\n"):
        assert rewritten(edit.kind, source).endswith("\nnew(1)\n")


def test_schema_describes_every_kind() -> None:
    described = json.dumps(json_schema(schema.PatchFile))
    assert all(f'"{kind}"' in described for kind in KINDS)


def loaded(*, cached: bool) -> dict[str, bool]:
    return {patch.id: patch.default for patch in load.patches(cached=cached)}


def test_files_in_the_cache_are_those_of_the_folder(built_in: Path) -> None:
    first = loaded(cached=True)
    assert first == loaded(cached=True) == loaded(cached=False)
    add_patch(built_in, "d-rug", SHELF, default="true")
    assert loaded(cached=True) == {**first, "d-rug": True}
    add_patch(built_in, "e-door", SHELF)
    assert loaded(cached=True) == loaded(cached=False)


@pytest.mark.parametrize(
    "poison", [b"", b"{", b"[]", b'{"key": "KEY", "tables": []}', b'{"key": "", "tables": TABLES}']
)
def test_a_damaged_cache_entry_of_patches_counts_for_nothing(
    built_in: Path, own_cache: Path, poison: bytes
) -> None:
    first = loaded(cached=True)
    (entry,) = (own_cache / "patches").iterdir()
    tables = json.dumps(json.loads(entry.read_bytes())["tables"]).encode()
    entry.write_bytes(
        poison.replace(b"KEY", entry.stem.encode()).replace(b"TABLES", tables.replace(b"lamp", b"lump"))
    )
    assert loaded(cached=True) == first


def test_what_is_written_to_a_tree_is_not_made_from_the_cache(built_in: Path, own_cache: Path) -> None:
    loaded(cached=True)
    (entry,) = (own_cache / "patches").iterdir()
    entry.write_bytes(entry.read_bytes().replace(b"wide = 1", b"wide = 2"))
    (edit,) = load.patches().get("b-desk").edits
    assert "wide = 1" in str(edit.kind)
