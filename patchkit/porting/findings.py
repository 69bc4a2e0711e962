"""Run checks of ``verify`` on a tree before and after a port, and return the new findings.

These are files that are not valid Python, undefined names, broken imports, calls with wrong arguments, and locals that
are not bound on every path; and attributes that are set too late.
"""

from __future__ import annotations

import ast
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING

from patchkit import memory
from patchkit.change.tokens import words
from patchkit.change.undefined import undefined_names
from patchkit.findings.finding import Confidence
from patchkit.findings.report import new_and_earlier
from patchkit.porting.assignments import late_assignments
from patchkit.tree.index import Program, index_module
from patchkit.tree.sglang import SERVING, files_of, imported_from, package_of, serves
from patchkit.tree.tree import OverlayTree
from patchkit.verify.check import violation
from patchkit.verify.checks import compiling, imports, reads, signatures
from patchkit.verify.runtime import Runtime
from patchkit.verify.subject import Criteria, Subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from patchkit.change.land import Sources
    from patchkit.findings.finding import Finding
    from patchkit.patchset.patch import Patch
    from patchkit.plan.status import EditStatus
    from patchkit.tree.tree import Tree

    InPlace = Sequence[tuple[Patch, EditStatus]]

_CHECKS = (imports.check, signatures.check, reads.check)


@memory.collector_paused()
def findings_of(
    tree: Tree,
    contents: Mapping[str, bytes | None],
    in_place: InPlace,
    base: Tree | None = None,
    sources: Sources = MappingProxyType({}),
) -> tuple[Finding, ...]:
    """Return the findings of ``tree`` with other ``contents`` that are new; edits ``in_place`` were made.

    What is equally wrong in the change's own tree (``base`` with ``sources``) is not new. A file that does not compile
    is a finding, also if it did not before, and is not checked further.
    """
    files = [file for file, text in contents.items() if text is not None and file.endswith(".py")]
    if not files:
        return ()
    new = {line for file in files for line in (contents[file] or b"").splitlines()}
    new -= {line for file in contents for line in (tree.read(file) or b"").splitlines()}
    # A removed file's content may be in an added one.
    originals = {file: None if contents[file] is None else tree.read(file) for file in contents}
    after = _subject(OverlayTree(tree, contents), originals, in_place, new)
    by_check = [(check, check(after).findings) for check in _CHECKS]
    before = _subject(tree, originals, in_place, new) if any(findings for _, findings in by_check) else None
    earlier_counts = Counter(
        _identity(finding)
        for check, findings in by_check
        if findings and before
        for finding in check(before).findings
    )
    own = _own_findings(base, sources, new) if base is not None and before is not None else frozenset()
    others = (
        finding
        for _, findings in by_check
        for finding in findings
        if _identity(finding) not in own
        and (finding.rule != reads.NAME.id or finding.expression not in _own_undefined(sources, finding.file))
    )
    result, _ = new_and_earlier(others, earlier_counts, _identity)
    theirs = [after for _, after in sources.values() if after is not None]
    result += late_assignments(after.program, originals, theirs)
    invalid = (compiling.finding_of(file, contents[file] or b"") for file in files)
    said = {(finding.file, finding.line) for finding in result if finding.rule == reads.NAME.id}
    unknown = _undefined(tree, contents, files, sources)
    undefined = [finding for finding in unknown if (finding.file, finding.line) not in said]
    return (*filter(None, invalid), *undefined, *result)


def _undefined(
    tree: Tree, contents: Mapping[str, bytes | None], files: Sequence[str], sources: Sources
) -> Iterator[Finding]:
    for file in files:
        for name, line in undefined_names(
            tree.read(file) or b"", contents[file] or b"", _theirs(sources, file)
        ):
            remedy = "define it, or remove the code that uses it"
            yield violation(reads.NAME, file, line, f"`{name}` is not defined", remedy)


def _own_undefined(sources: Sources, file: str) -> frozenset[str]:
    """Return the names that are undefined in a change's own version of a file."""
    return frozenset(name for name, _ in undefined_names(b"", _theirs(sources, file)))


def _theirs(sources: Sources, file: str) -> bytes:
    return sources.get(file, (None, None))[1] or b""


def _own_findings(base: Tree, sources: Sources, new: Iterable[bytes]) -> frozenset[tuple[str, ...]]:
    """Return what the checks find in a change's own tree, if that is whole: of a part of it they know too little."""
    if base.read("__init__.py") is None:
        return frozenset()
    contents = {file: after for file, (_, after) in sources.items()}
    originals = {file: before for file, (before, _) in sources.items()}
    subject = _subject(OverlayTree(base, contents), originals, (), new)
    return frozenset(_identity(finding) for check in _CHECKS for finding in check(subject).findings)


def _modules_of(file: str, tree: ast.Module) -> Iterator[str]:
    """Yield the modules that the imports of a file name, and what may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = imported_from(node.module, node.level, package_of(file))
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names)) if base else ()


def _folders(tree: Tree) -> frozenset[str]:
    """Return every folder with a Python file, at any depth, each with a trailing slash."""
    files = tree.files("")
    return frozenset(
        file[: index + 1] for file in files for index, character in enumerate(file) if character == "/"
    ) | {""}


def _identity(finding: Finding) -> tuple[str, ...]:
    # A file may have another name by now.
    return (finding.rule, finding.function, finding.expression, finding.message)


def _subject(
    tree: Tree,
    originals: Mapping[str, bytes | None],
    in_place: InPlace,
    new: Iterable[bytes],
) -> Subject:
    """Return the subject of the checks: a tree, which need not be on disk, with the ``originals`` of changed files.

    The names in the ``new`` lines are resolved in advance, since a check reads no further files.
    """
    read = ((file, tree.read(file)) for file in {*tree.files(SERVING), *originals})
    sources = {file: text for file, text in read if text is not None}
    subject = Subject(tree, (), Criteria(Confidence.LIKELY))  # type: ignore[arg-type]
    python = (file for file in originals if file in sources and file.endswith(".py"))
    files = tuple(sorted(file for file in python if compiling.finding_of(file, sources[file]) is None))
    program = Program({file: text for file, text in sources.items() if serves(file)}, files)
    named = set(words(b"\n".join(new).decode(errors="replace")))
    for module in program.core:
        for name in named & module.imports.keys():
            program.resolve(module, name)  # Checks follow imports only to files that are parsed.
    imported = {
        home: text
        for file in files
        for name in _modules_of(file, index_module(file, sources[file]).tree)
        for home in files_of(name)
        if home not in sources and (text := tree.read(home)) is not None
    }
    subject.__dict__.update(
        sources={**sources, **imported},
        folders=_folders(tree),
        files=files,
        in_place=tuple(in_place),
        runtime=Runtime("", lambda _dotted: None),
        program=program,
        _read_originals=({file: originals[file] for file in files}, None),
    )
    return subject
