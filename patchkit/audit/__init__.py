"""Static audit: find reads of the CPU mirror that break when it is None."""
