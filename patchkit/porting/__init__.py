"""Port a change to a tree that has drifted, and report what is uncertain."""
