"""Metadata of attention backends, computed for patched sglang code; depends on torch only."""
