"""All or nothing: a tree gets every byte of an apply or a revert, or, whatever goes wrong, not one."""
