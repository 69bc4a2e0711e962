"""Probes: each module drives one part of sglang inside a tree and returns plain Python objects."""
