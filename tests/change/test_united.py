"""What both sides do to one statement, at one place or to one run of imports is made in both, or in neither."""

from __future__ import annotations

import pytest

from patchkit.change.united import kept_comments, united, united_imports

IMPORTS = {
    "each adds a name": (
        "from a import b\n",
        "from a import b, c\n",
        "from a import b, d\n",
        "from a import b, c, d\n",
    ),
    "each adds an import": (
        "import b\n",
        "import b\nimport c\n",
        "import b\nimport d\n",
        "import b\nimport c\nimport d\n",
    ),
    "one adds and one removes": (
        "from a import b, c\n",
        "from a import b, c, d\n",
        "from a import b\n",
        "from a import b, d\n",
    ),
    "both remove another one": (
        "from a import b, c, d\n",
        "from a import b, c\n",
        "from a import c, d\n",
        "from a import c\n",
    ),
    "a whole import goes": (
        "import b\nfrom a import c\n",
        "from a import c\n",
        "import b\nfrom a import c, d\n",
        "from a import c, d\n",
    ),
    "both add the same": (
        "import b\n",
        "import b\nimport c\n",
        "import b\nimport c\nimport d\n",
        "import b\nimport c\nimport d\n",
    ),
    "names that were sorted stay so": (
        "from a import b, x\n",
        "from a import b, m, x\n",
        "from a import b, k, x\n",
        "from a import b, k, m, x\n",
    ),
    "names that were not do not": (
        "from a import x, b\n",
        "from a import x, b, m\n",
        "from a import x, b, k\n",
        "from a import x, b, m, k\n",
    ),
    "the layout of the side that changes more": (
        "from a import b\n",
        "from a import (\n    b,\n    c,\n)\nimport d\n",
        "from a import b, e\n",
        "from a import (\n    b,\n    c,\n    e,\n)\nimport d\n",
    ),
    "another module of the same name for the other": (
        "import b\n",
        "import b\nfrom x import c\n",
        "import b\nfrom y import d\n",
        "import b\nfrom x import c\nfrom y import d\n",
    ),
    "a name that comes from elsewhere": (
        "from a import b\n",
        "from c import b\n",
        "from a import b, d\nfrom e import f\n",
        "from a import d\nfrom e import f\nfrom c import b\n",
    ),
    "deeper": (
        "    from a import b\n",
        "    from a import b, c\n",
        "    from a import b, d\n",
        "    from a import b, c, d\n",
    ),
}
NONE = {
    "a comment": ("import b\n", "import b  # why\nimport c\n", "import b\nimport d\n"),
    "other code": ("import b\n", "import b\nc = 1\n", "import b\nimport d\n"),
    "the same name twice": ("import b\n", "import b\nimport b\n", "import b\nimport d\n"),
    "no Python": ("import b\n", "import b\nimport (\n", "import b\nimport d\n"),
}


@pytest.mark.parametrize(("base", "ours", "theirs", "made"), IMPORTS.values(), ids=IMPORTS)
def test_runs_of_imports_are_merged_name_by_name(base: str, ours: str, theirs: str, made: str) -> None:
    assert united_imports(base, ours, theirs) == made
    assert sorted(united_imports(base, theirs, ours).replace(",", " ").split()) == sorted(
        made.replace(",", " ").split()
    )


@pytest.mark.parametrize(("base", "ours", "theirs"), NONE.values(), ids=NONE)
def test_runs_with_anything_else_are_not(base: str, ours: str, theirs: str) -> None:
    assert united_imports(base, ours, theirs) == united_imports(base, theirs, ours) == ""


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "result", "kept"),
    [
        ("# a\n", "# a\n", "# a\n", "# a\n", True),
        ("# a\n", "# a\n", "# a\n", "", False),
        ("# a\n", "", "# a\n", "", True),
        ("# a\n", "", "# a\n", "# a\n", False),
        ("", "# a\n", "", "# a\n", True),
        ("", "# a\n", "", "", False),
        ("", "# a\n", "# b\n", "# a\n# b\n", True),
        # What both add may be there once or twice.
        ("", "# a\n", "# a\n", "# a\n", True),
        ("", "# a\n", "# a\n", "# a\n# a\n", True),
        ("", "# a\n", "# a\n", "# a\n# a\n# a\n", False),
        # What both rewrite in one way, and in two.
        ("# a\n", "# b\n", "# b\n", "# b\n", True),
        ("# a\n", "# b\n", "# c\n", "# b\n# c\n", False),
        ("# a\n", "", "", "", True),
        ("", "", "", "# new\n", False),
    ],
)
def test_the_comments_that_a_merge_keeps(base: str, ours: str, theirs: str, result: str, kept: bool) -> None:
    assert kept_comments(base, ours, theirs, result) is kept
    assert kept_comments(base, theirs, ours, result) is kept


UNITED = {
    "each another argument": ("f(a, b)\n", "f(a, c)\n", "f(d, b)\n", None),
    "each another keyword": ("f(a=1, b=2)\n", "f(a=3, b=2)\n", "f(a=1, b=4)\n", "f(a=3, b=4)\n"),
    "each another keyword more": ("f(a)\n", "f(a, b=1)\n", "f(a, c=2)\n", "f(a, c=2, b=1)\n"),
    "an entry of a dictionary": (
        "x = {'a': 1, 'b': 2}\n",
        "x = {'a': 3, 'b': 2}\n",
        "x = {'a': 1, 'b': 4}\n",
        "x = {'a': 3, 'b': 4}\n",
    ),
    "two words in a row": ("x = a + b\n", "x = c + b\n", "x = a + d\n", None),
    "the same word": ("x = a\n", "x = b\n", "x = c\n", None),
    "the same word in the same way": ("f(a, b)\n", "f(c, b)\n", "f(c, b)\n", None),
    "a header": (
        "def f(a=1, b=2):\n    pass\n",
        "def f(a=3, b=2):\n    pass\n",
        "def f(a=1, b=4):\n    pass\n",
        "def f(a=3, b=4):\n    pass\n",
    ),
    "a decorator and a parameter": (
        "@a\ndef f(b=1):\n    pass\n",
        "@c\ndef f(b=1):\n    pass\n",
        "@a\ndef f(b=2):\n    pass\n",
        "@c\ndef f(b=2):\n    pass\n",
    ),
    "a decorator, and a parameter in a layout of its own": (
        "@a\ndef f(b=1)->int:\n    pass\n",
        "@c\ndef f(b=1)->int:\n    pass\n",
        "@a\ndef f(b=2) -> int:\n    pass\n",
        "@c\ndef f(b=2) -> int:\n    pass\n",
    ),
    "two decorators": (
        "@a\ndef f(b=1):\n    pass\n",
        "@c\ndef f(b=1):\n    pass\n",
        "@d\ndef f(b=1):\n    pass\n",
        None,
    ),
    "two statements on a line": (
        "f(a=1, b=2); g()\n",
        "f(a=3, b=2); g()\n",
        "f(a=1, b=4); g()\n",
        None,
    ),
    "what is inside": (
        "if a:\n    f(b=1, c=2)\n",
        "if a:\n    f(b=3, c=2)\n",
        "if a:\n    f(b=1, c=4)\n",
        "if a:\n    f(b=3, c=4)\n",
    ),
    "a constant of each": (
        "a = 1\nb = 2\n",
        "a = 1\nc = 3\nb = 2\n",
        "a = 1\nd = 4\nb = 2\n",
        "a = 1\nc = 3\nd = 4\nb = 2\n",
    ),
    "an effect of each": ("a = 1\nb = 2\n", "a = 1\nf()\nb = 2\n", "a = 1\ng()\nb = 2\n", None),
    "a constant and one that reads it": (
        "a = 1\nb = 2\n",
        "a = 1\nc = 3\nb = 2\n",
        "a = 1\nd = c\nb = 2\n",
        None,
    ),
    "a compiled pattern and a constant": (
        "a = 1\nb = 2\n",
        "a = 1\nc = re.compile('x')\nb = 2\n",
        "a = 1\nd = 4\nb = 2\n",
        "a = 1\nc = re.compile('x')\nd = 4\nb = 2\n",
    ),
    "a call and a constant": (
        "a = 1\nb = 2\n",
        "a = 1\nc = f()\nb = 2\n",
        "a = 1\nd = 4\nb = 2\n",
        "a = 1\nc = f()\nd = 4\nb = 2\n",
    ),
    "a call and one that reads something": (
        "a = 1\nb = 2\n",
        "a = 1\nc = f()\nb = 2\n",
        "a = 1\nd = e\nb = 2\n",
        None,
    ),
    "a comment of each side": (
        "f(a, b)\n",
        "f(a, c)  # why\n",
        "f(d, b)  # because\n",
        None,
    ),
}


@pytest.mark.parametrize(("base", "ours", "theirs", "made"), UNITED.values(), ids=UNITED)
def test_what_both_do_is_in_all_versions_where_it_fits(
    base: str, ours: str, theirs: str, made: str | None
) -> None:
    found = united((base, ours, theirs))
    assert found == ((made,) * 3 if made is not None else (base, ours, theirs))
