"""``new-file``: create a file; an existing file must define the same names."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from patchkit.codemods import examination
from patchkit.codemods.kind import Example, Kind
from patchkit.codemods.language import texts
from patchkit.codemods.language.comment import annotate
from patchkit.codemods.language.definitions import bound_name, bound_names
from patchkit.codemods.language.names import bound_otherwise
from patchkit.codemods.language.placeholders import as_written

if TYPE_CHECKING:
    import libcst as cst

    from patchkit.codemods.examination import Examination
    from patchkit.codemods.language.scope import Scope


class NewFile(Kind, frozen=True, kw_only=True, tag="new-file", forbid_unknown_fields=True):
    """Create the file with ``code``; ``revert`` removes it.

    Upstream's 29843, which fuses a backend's metadata into one kernel, is such a change.
    """

    code: str

    looks_inside: ClassVar[bool] = False
    is_for_modules: ClassVar[bool] = True
    makes_file: ClassVar[bool] = True

    def check(self) -> None:
        """Raise ValueError if ``code`` defines no name that identifies the file."""
        with texts.naming("code"):
            if not self._names:
                raise ValueError("it defines no name that identifies the file")

    @property
    def _module(self) -> cst.Module:
        return as_written(self.code)

    @property
    def _names(self) -> set[str]:
        return {name for name in map(bound_name, self._module.body) if name is not None}

    def examine(self, scope: Scope, note: str) -> Examination:
        """Look for the names that the file defines; an empty module is a file that does not exist."""
        lacking = self._names - bound_names(scope)
        missing = sorted(lacking.difference(bound_otherwise(scope, lacking)))
        if not missing:
            return examination.present()
        if scope.body:
            return examination.ambiguous(f"the file exists, but does not define {', '.join(missing)}")

        def rewrite() -> cst.Module:
            module = self._module
            first, *rest = module.body
            return module.with_changes(body=(annotate(first, note), *rest))

        return examination.ready(rewrite)

    VALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "The file contains the code below the note.",
            "code = '''\nimport shop\n\n\ndef lend(book):\n    shop.log(book)\n'''",
            before="",
            after="""
            # toy: so that it shows
            import shop


            def lend(book):
                shop.log(book)
            """,
        ),
    )
    NO_OP: ClassVar[tuple[Example, ...]] = (
        Example(
            "An existing file that defines the same names is kept.",
            'code = "def lend(book): ..."',
            before="""
            def lend(book, days=14):
                return days
            """,
        ),
    )
    INVALID: ClassVar[tuple[Example, ...]] = (
        Example(
            "A file that defines other names is a conflict.",
            'code = "def lend(book): ..."',
            before="def borrow(book): ...",
            refusal="the file exists, but does not define lend",
        ),
        Example(
            "`code` must define a name.", 'code = "lend(book)"', refusal="key `code`: it defines no name"
        ),
    )
