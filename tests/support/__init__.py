"""Fixtures and helpers of several test folders: toy trees, releases, backdated trees, driven trees."""
