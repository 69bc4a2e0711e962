"""The vocabulary of edits: each codemod is one kind of edit on Python code and knows nothing of sglang."""
