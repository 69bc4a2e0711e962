"""The parts of ``bench_decode.py``: scenarios, engines in separate processes, and measurements."""
