from __future__ import annotations

import pytest
from support.programs import check_noop, check_transformed, edit

from patchkit.codemods.examination import SiteState


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("class Book:", "class Book(shop.Lent):"),
        ("class Book():", "class Book(shop.Lent):"),
        ("class Book(Thing):", "class Book(shop.Lent, Thing):"),
        ("class Book(Thing, metaclass=Meta):", "class Book(shop.Lent, Thing, metaclass=Meta):"),
        ("class Book(metaclass=Meta):", "class Book(shop.Lent, metaclass=Meta):"),
        ("class Book(\n    Thing,  # mostly\n):", "class Book(\n    shop.Lent, Thing,  # mostly\n):"),
    ],
)
def test_base_goes_in_front(before: str, after: str) -> None:
    check_transformed(
        edit("base-class", base="shop.Lent"),
        f"{before}\n    pass\n",
        f"# toy: so that it shows\n{after}\n    pass\n",
        at="Book",
    )


@pytest.mark.parametrize("bases", ["Lent", "Thing, shop.Lent", "other.Lent", "Lent[int]"])
def test_base_that_is_there_stays(bases: str) -> None:
    check_noop(
        edit("base-class", base="shop.Lent"),
        f"class Book({bases}):\n    pass\n",
        SiteState.PRESENT,
        at="Book",
    )


def test_base_of_a_function_is_refused() -> None:
    check_noop(
        edit("base-class", base="Lent"),
        "def book(): ...\n",
        SiteState.ABSENT,
        at="book",
        reason="not a class",
    )


@pytest.mark.parametrize("base", ["", "class", "a = 1", "A\nB", "$x"])
def test_base_that_is_no_expression_is_malformed(base: str) -> None:
    with pytest.raises(ValueError, match=r"^key `"):
        edit("base-class", base=base)
