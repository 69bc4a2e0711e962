"""What is asked inside a tree: each module drives one part of sglang and returns plain Python."""
