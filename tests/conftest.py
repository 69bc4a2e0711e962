"""Fixtures of every test folder, registered for pytest; their code is in `support`."""

pytest_plugins = [
    "support.cached_git",
    "support.collection",
    "support.hostile",
    "support.toys",
    "support.releases",
    "support.backdated",
    "support.driven.fixtures",
]
