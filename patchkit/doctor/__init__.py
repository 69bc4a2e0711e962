"""What a server's configuration comes to on a tree: who keeps the CPU mirror, and what would free it."""
