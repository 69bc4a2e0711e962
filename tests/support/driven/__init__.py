"""Trees of sglang that are imported in processes of their own and run probes."""
