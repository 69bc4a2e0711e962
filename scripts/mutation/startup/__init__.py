"""What is in every process that a clean run starts."""
