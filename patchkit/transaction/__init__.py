"""Write a plan to a tree completely and record it, or write nothing.

After an interruption the tree is byte for byte the old one or the new one, or ``recover`` makes it so. Nothing
outside the tree is changed, and no edit of a person is lost.

``apply`` and ``revert`` compute what changes, ``origins`` finds the original contents, ``write`` writes, ``recover``
ends an interrupted write. ``current`` reads the record of what was done, ``store`` keeps contents in the tree,
``revert_plan`` and ``undo`` compute a revert, and ``folder`` contains every system call that changes a file.
"""
