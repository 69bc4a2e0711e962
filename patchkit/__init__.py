"""patchkit lands upstream sglang upgrades on forks by meaning, and takes them back byte for byte."""

__version__ = "0.1.0"
