"""A change that somebody else wrote lands on a tree that has drifted, and what is not certain of it is said."""
