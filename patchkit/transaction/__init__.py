"""A tree is changed whole and recorded, or not at all.

After any interruption the tree is, byte for byte, the old one or the new one, or ``recover`` makes it so;
nothing outside the tree is ever touched; nothing of a person's is ever lost; ``status`` never lies.

``apply`` and ``revert`` say what is to change, ``origins`` what stood before it, ``write`` changes it,
``recover`` ends what was interrupted.
``record`` and ``ledger`` say what was done, ``store`` keeps that beside the tree, ``unwind`` and ``merge``
work out what taking it back comes to, ``folder`` holds every system call that changes anything.
"""
