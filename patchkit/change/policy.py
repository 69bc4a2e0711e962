"""What a merge does where this tree's code is not the code that the change was made on."""

from __future__ import annotations

import enum


class Policy(enum.Enum):
    """Whether a merge follows renamed, moved and edited code, and says so, or refuses.

    A port adapts. A revert refuses: what it cannot remove exactly stays, and so does everything else.
    """

    ADAPT = "adapt"
    REFUSE = "refuse"
