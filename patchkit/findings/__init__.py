"""Findings of ``audit`` and ``verify``, and the formats that print them."""
