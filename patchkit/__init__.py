"""Backport sglang's speculative-decoding speedups to a diverged fork, and revert them byte for byte."""

__version__ = "0.1.0"
