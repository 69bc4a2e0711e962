"""Every Python process of a clean run writes down which functions of trees and of patchkit it calls.

Python imports this module by its name in each process. A fork starts anew, so that what answers one probe is told
from what was called before, when the process imported its tree.
"""

import os
import sys

FOLDER = "MUTATION_CALLS"


def _note_calls(folder: str, file: str) -> None:
    sink = os.open(os.path.join(folder, file), os.O_WRONLY | os.O_CREAT)
    seen = {}

    def note(frame, event, argument):
        code = frame.f_code
        if id(code) not in seen:
            # A code object that went away would leave its number to another.
            seen[id(code)] = code
            if "/sglang/" in code.co_filename or "/patchkit/" in code.co_filename:
                os.write(sink, f"{code.co_filename}\t{code.co_name}\n".encode())

    sys.settrace(note)


if folder := os.environ.get(FOLDER):
    _note_calls(folder, str(os.getpid()))
    os.register_at_fork(after_in_child=lambda: _note_calls(folder, f"{os.getppid()}-{os.getpid()}"))
