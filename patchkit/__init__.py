"""Carry patches on a fork of sglang to other releases, and backport its speculative-decoding speedups."""

__version__ = "0.2.0"
