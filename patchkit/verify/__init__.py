"""Verification of a patched tree: one check a module, each a pure function of tree, patches and ledger."""
