"""The commands by topic, each with its summary, which is the first sentence of its help.

``patchkit --help`` shows them, and imports no command.
"""

from __future__ import annotations

TOPICS = {
    "Inspect a tree": {
        "status": "Show each patch's state: applied, pending or in conflict.",
        "show": "List the patches, or show one: its change, reason and risk.",
        "diff": "Print what apply would change, as a unified diff.",
    },
    "Apply and revert patches": {
        "apply": "Apply patches to TREE, with the patches that they require.",
        "resolve": "Record an edit that you made by hand where a patch conflicted.",
        "revert": "Revert patches in TREE, and keep your own later changes.",
    },
    "Check a tree": {
        "verify": "Check that the patches in TREE are complete and fit its code.",
        "audit": "Find code that fails when a batch has no CPU sequence lengths.",
        "doctor": "Show why a server waits for the GPU and which fixes it lacks.",
        "bench": "Measure on this GPU what patches change for a server.",
    },
    "Work with branches and commits": {
        "matrix": "Show each patch's state on many branches, without a checkout.",
        "rebase": "Check how a move to REF affects each patch, or merge REF.",
        "merge-driver": "Merge Python files by structure in git's own commands.",
        "export": "Write patches as a series of commits for git am.",
    },
    "Port and write changes": {
        "port": "Port patches to a tree that has diverged.",
        "new": "Draft a patch from a diff or a commit.",
        "test": "Check a patch of your own, or try a patch on copies of trees.",
    },
}
SUMMARIES = {name: summary for commands in TOPICS.values() for name, summary in commands.items()}
