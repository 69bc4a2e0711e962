"""Fixtures of every test folder, registered for pytest; their code is in `support`."""

pytest_plugins = [
    "support.asked_once",
    "support.collection",
    "support.hostile",
    "support.toys",
    "support.releases",
    "support.backdated",
    "support.driven.fixtures",
]
