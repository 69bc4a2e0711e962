"""Trees of sglang that run in processes of their own and answer probes."""
