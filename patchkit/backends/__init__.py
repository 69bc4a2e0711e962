"""Metadata of attention backends as patched sglang code computes it; depends on torch alone."""
