"""The parts of ``bench_metadata.py``: a tree's backends without their server, and the measurements."""
