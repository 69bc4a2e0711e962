"""Diagnose a server configuration on a tree: what keeps the CPU mirror, and which patches or options remove it."""
