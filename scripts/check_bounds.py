"""Run the tests with every dependency at its lower bound, then at the newest version within its upper bound.

Only tests that need neither torch nor a release of sglang run. uv resolves the versions; pip-audit must find no
advisory for the newest ones. Requires the dependencies of ``.[release]``, and the package index. Arguments after --
are passed to pytest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import click

REPOSITORY = Path(__file__).parents[1]
ENDS = {"lowest": "lowest-direct", "newest": "highest"}
TESTED = ("cli", "codemods", "findings", "matrix", "patchset", "plan", "transaction", "tree")
"""The packages whose tests need no torch."""
RUNNERS = ("filelock", "hatchling", "hypothesis", "pip", "pydantic-sarif", "pytest", "pytest-xdist")
"""The further dependencies of these tests."""


def run(*command: str | Path) -> None:
    """Run a command in the repository. Raise SystemExit if it fails."""
    click.echo(f"+ {' '.join(map(str, command))}", err=True)
    ended = subprocess.run(list(map(str, command)), cwd=REPOSITORY, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"check_bounds: {command[0]} ended with {ended.returncode} and says why above.")


def check(end: str, python: str, folder: Path, arguments: tuple[str, ...]) -> None:
    """Install the versions of one end in a new environment and run the tests there."""
    uv = (sys.executable, "-m", "uv")
    folder.mkdir()
    pinned, environment = folder / "pinned.txt", folder / "environment"
    compile_options = ("--resolution", ENDS[end], "--quiet", "--output-file", pinned, "--python", python)
    run(*uv, "pip", "compile", "pyproject.toml", *compile_options)
    run(*uv, "venv", "--quiet", "--python", python, environment)
    install_options = ("--quiet", "--python", environment, "--constraint", pinned)
    run(*uv, "pip", "install", *install_options, ".", *RUNNERS)
    folders = [f"tests/{name}" for name in TESTED if (REPOSITORY / "tests" / name).is_dir()]
    options = ("-q", "-m", "not release", "-p", "no:cacheprovider")
    run(environment / "bin" / "python", "-m", "pytest", *options, *folders, *arguments)
    if end == "newest":
        run(sys.executable, "-m", "pip_audit", "--strict", "--no-deps", "--requirement", pinned)


@click.command(help=__doc__)
@click.option(
    "--end", "ends", type=click.Choice([*ENDS]), multiple=True, default=[*ENDS], help="Check only this end."
)
@click.option(
    "--python", "pythons", multiple=True, default=("3.10",), show_default=True, help="Python version to use."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(ends: tuple[str, ...], pythons: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    """Check both ends."""
    with tempfile.TemporaryDirectory(prefix="patchkit-bounds-") as folder:
        for python in pythons:
            for end in ends:
                check(end, python, Path(folder, f"{len(os.listdir(folder))}-{end}"), arguments)


if __name__ == "__main__":
    main()
