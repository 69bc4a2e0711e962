"""A static audit that finds reads of the CPU mirror which break when it is None, before the server does."""
