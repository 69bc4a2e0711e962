"""The formats in which a verification answers; what the audit's formats have, they take from there."""
