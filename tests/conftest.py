"""Fixtures of every room: pytest looks for them here; their code is in `support`."""

pytest_plugins = [
    "support.asked_once",
    "support.collection",
    "support.hostile",
    "support.toys",
    "support.releases",
    "support.backdated",
    "support.driven.fixtures",
]
