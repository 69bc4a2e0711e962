"""One page that needs nothing else: the checks, and each patch with its state, why, and what it changed."""

from __future__ import annotations

import difflib
from html import escape
from typing import TYPE_CHECKING

from patchkit import __version__
from patchkit.errors import TreeError
from patchkit.plan.build import make_plan
from patchkit.plan.status import State
from patchkit.tree.tree import OverlayTree
from patchkit.verify.result import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from patchkit.plan.status import FileChange, PatchStatus
    from patchkit.verify.result import Result, Verdict
    from patchkit.verify.subject import Subject

_CONTEXT = 3
_STYLE = """
:root { color-scheme: light dark; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --back: #fff; --pane: #f6f8fa;
  --good: #1a7f37; --bad: #cf222e; --warn: #9a6700; --added: #dafbe1; --gone: #ffebe9; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9198a1; --line: #3d444d; --back: #0d1117;
  --pane: #151b23; --good: #3fb950; --bad: #f85149; --warn: #d29922; --added: #12361f; --gone: #43171a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); margin: 2rem auto;
  max-width: 78rem; padding: 0 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.place, .note, .summary, .fix { color: var(--soft); } .place { overflow-wrap: anywhere; }
.verdict { font-weight: 600; font-size: 1.1rem; margin: .8rem 0; }
.passed, .applied, .upstream { color: var(--good); } .failed, .conflict { color: var(--bad); }
.pending, .partial { color: var(--warn); } .skipped, .not-applicable { color: var(--soft); }
table.checks { border-collapse: collapse; width: 100%; }
table.checks > tbody > tr > td { border-top: 1px solid var(--line); padding: .45rem .7rem .45rem 0;
  vertical-align: top; }
td.outcome { font-weight: 600; width: 5rem; } td.title { width: 19rem; }
.finding { margin: .35rem 0; overflow-wrap: anywhere; } .finding code { color: var(--bad); }
code, td pre { font: 12.5px/1.45 ui-monospace, monospace; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; overflow: hidden; }
summary { cursor: pointer; padding: .55rem .8rem; background: var(--pane); } summary b { margin: 0 .5rem; }
details > div { padding: .2rem .9rem .8rem; } details details { margin: .5rem 0; }
.why { white-space: pre-line; max-width: 60rem; }
table.diff { border-collapse: collapse; width: 100%; table-layout: fixed; font: 12px/1.5 ui-monospace, monospace; }
table.diff td { padding: 0 .5rem; vertical-align: top; white-space: pre-wrap; overflow-wrap: anywhere; }
table.diff td.number { text-align: right; color: var(--soft); user-select: none; background: var(--pane); }
table.diff td.added { background: var(--added); } table.diff td.gone { background: var(--gone); }
table.diff tr.gap td { background: var(--pane); color: var(--soft); text-align: center; }
"""


def document(verdict: Verdict, subject: Subject) -> str:
    """Return the page."""
    failed = [result.title for result in verdict.results if result.outcome is Outcome.FAILED]
    version = subject.tree.version or "version unknown"
    said = f"Failed: {', '.join(failed)}" if failed else "Every check that was made passed"
    rows = "\n".join(map(_check, verdict.results))
    changes = _changes(subject, verdict.statuses)
    patches = "\n".join(_patch(status, changes.get(status.patch.id, ())) for status in verdict.statuses)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>patchkit verify: sglang {escape(version)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>sglang {escape(version)}</h1>
<div class="place">{escape(str(subject.tree.package))}</div>
<p class="verdict {"failed" if failed else "passed"}">{escape(said)}.</p>
<h2>Checks</h2>
<table class="checks"><tbody>
{rows}
</tbody></table>
<h2>Patches</h2>
{patches}
<p class="note">patchkit {escape(__version__)} verify, {verdict.seconds:.1f} s.</p>
</body>
</html>"""


def _check(result: Result) -> str:
    found = "".join(
        f'<div class="finding"><code>{escape(f"{one.file}:{one.line}")}</code> {escape(one.message)}'
        f'<div class="fix">{escape(one.guard)}</div></div>'
        for one in result.findings
    )
    notes = "".join(f'<div class="note">{escape(note)}</div>' for note in result.notes)
    outcome = result.outcome.value
    return (
        f'<tr><td class="outcome {outcome}">{outcome}</td><td class="title">{escape(result.title)}</td>'
        f'<td><span class="summary">{escape(result.summary)}</span>{found}{notes}</td></tr>'
    )


def _patch(status: PatchStatus, changes: Sequence[FileChange]) -> str:
    patch, state = status.patch, status.state.value
    link = f'<p><a href="{escape(patch.upstream)}">{escape(patch.upstream)}</a></p>' if patch.upstream else ""
    reason = f'<p class="{state}">{escape(status.reason)}</p>' if status.reason else ""
    files = "\n".join(
        f"<details open><summary><code>{escape(change.file)}</code></summary>{_table(change)}</details>"
        for change in changes
    )
    nothing = '<p class="note">No ledger says what was there before: git shows the change.</p>'
    missing = nothing if status.state is State.APPLIED and not changes else ""
    return (
        f'<details><summary><span class="{state}">{state}</span><b>{escape(patch.id)}</b>{escape(patch.title)}'
        f'</summary><div><p class="why">{escape(patch.why.strip())}</p>{link}{reason}{missing}{files}</div></details>'
    )


def _changes(subject: Subject, statuses: Sequence[PatchStatus]) -> dict[str, tuple[FileChange, ...]]:
    """Return, by patch, what it changed or would change, made again from what the ledger kept."""
    try:
        layers = reversed(subject.ledger.layers)
        contents = {
            file: None if known.original is None else subject.store.get(known.original)
            for layer in layers
            for file, known in layer.files.items()
        }
    except TreeError:
        return {}
    found = {}
    for status in statuses:
        if status.patch.id in subject.ledger.patches or status.state in {State.PENDING, State.PARTIAL}:
            planned = make_plan(OverlayTree(subject.tree, contents), (status.patch,))
            found[status.patch.id] = planned.changes
            contents |= {change.file: change.after for change in planned.changes}
    return found


def _table(change: FileChange) -> str:
    rows = "\n".join(_rows(change))
    columns = "<colgroup><col style='width:3.4rem'><col><col style='width:3.4rem'><col></colgroup>"
    return f'<table class="diff">{columns}<tbody>{rows}</tbody></table>'


def _rows(change: FileChange) -> Iterator[str]:
    old, new = ((text or b"").decode(errors="replace").splitlines() for text in (change.before, change.after))
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT)
    for place, group in enumerate(groups):
        if place:
            yield '<tr class="gap"><td colspan="4">⋯</td></tr>'
        for tag, i1, i2, j1, j2 in group:
            for offset in range(max(i2 - i1, j2 - j1)):
                left = _cell(old, i1 + offset, i2, "" if tag == "equal" else "gone")
                right = _cell(new, j1 + offset, j2, "" if tag == "equal" else "added")
                yield f"<tr>{left}{right}</tr>"


def _cell(lines: Sequence[str], at: int, end: int, kind: str) -> str:
    if at >= end:
        return '<td class="number"></td><td></td>'
    style = f' class="{kind}"' if kind else ""
    return f'<td class="number">{at + 1}</td><td{style}>{escape(lines[at])}</td>'
