"""One check a file, with the rules that its findings break."""
