"""The parts of ``bench_metadata.py``: a tree's backends without their server, and what is measured."""
