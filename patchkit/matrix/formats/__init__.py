"""The output formats of a matrix, one file for each."""
