"""The parts of ``scripts/golden.py``: each makes one group of its cases."""
