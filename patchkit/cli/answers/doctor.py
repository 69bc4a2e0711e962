"""The answer of ``doctor``."""

from __future__ import annotations

from patchkit.cli.answers.base import Answer, TreeAnswer
from patchkit.doctor.causes import Cause  # noqa: TC001  # schemas are made of it
from patchkit.doctor.diagnosis import Touched  # noqa: TC001  # schemas are made of it
from patchkit.doctor.fixes import Fix  # noqa: TC001  # schemas are made of it
from patchkit.doctor.gains import Gain  # noqa: TC001  # schemas are made of it
from patchkit.doctor.survey import SurveyedServer  # noqa: TC001  # schemas are made of it


class Doctor(Answer, frozen=True, kw_only=True):
    """The answer of ``doctor``."""

    tree: TreeAnswer
    kept: bool
    verdict: str
    backends: tuple[Touched, ...]
    causes: tuple[Cause, ...]
    gains: tuple[Gain, ...]
    notes: tuple[str, ...]
    fixes: tuple[Fix, ...]


class DoctorFiles(Answer, frozen=True, kw_only=True):
    """The answer of ``doctor`` for files."""

    tree: TreeAnswer
    servers: tuple[SurveyedServer, ...]
