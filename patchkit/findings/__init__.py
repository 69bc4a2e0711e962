"""What audit and verify find, and every format that says so."""
