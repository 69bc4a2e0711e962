"""Compute the states of all patches on many refs of one repository, without a checkout."""
