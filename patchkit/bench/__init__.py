"""What a server's launch command gains: two trees served side by side, their runs timed in pairs, tokens compared."""
