"""Find what a change that was made in a drifted tree may break there."""
