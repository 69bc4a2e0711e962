from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.kernels import running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(scope="module")
def by_kernel() -> Iterator[Callable[..., Any]]:
    """Call a function where kernels run: ``by_kernel(function, *arguments)``."""
    with running() as call:
        yield call
