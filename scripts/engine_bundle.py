"""Pack what an offline machine with a Hopper GPU needs to run sglang engines of any number of trees.

usage: python scripts/engine_bundle.py --tree NAME=PLACE [--tree ...] OUT; PLACE is a path or REPOSITORY@REF

The machine must have Python 3.12, PyTorch 2.11 for CUDA 13, Triton 3.6 and nvcc. ``OUT/site.tar.xz`` has the
missing packages, except sglang itself; ``OUT/trees.tar.xz`` has the trees, one folder per name, without the parts
that a text model never imports. Neighbouring releases differ little, so each further tree adds a few hundred
kilobytes.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

import click
from decode_bench.trees import located

from patchkit.tree.tree import open_tree

if TYPE_CHECKING:
    from collections.abc import Iterable

SGLANG = "sglang==0.5.12.post1"
KERNELS = "sglang-kernel==0.4.2.post2"
REQUIREMENTS = [
    "annotated-doc",
    "annotated-types==0.7.0",
    "apache-tvm-ffi==0.1.9",
    "asttokens",
    "compressed-tensors",
    "dill",
    "diskcache",
    "distro",
    "easydict",
    "executing",
    "fastapi",
    "flashinfer-python==0.6.11.post1",
    "gguf",
    "interegular",
    "ipython",
    "ipython-pygments-lexers",
    "jiter",
    "jsonschema",
    "jsonschema-specifications",
    "lark",
    "libcst",
    "llguidance",
    "loguru",
    "matplotlib-inline",
    "msgspec",
    "nest-asyncio",
    "openai==2.6.1",
    "openai-harmony==0.0.4",
    "opentelemetry-api",
    "orjson",
    "parso",
    "partial-json-parser",
    "pexpect",
    "platformdirs",
    "prompt-toolkit",
    "ptyprocess",
    "pure-eval",
    "pybase64",
    "pydantic==2.14.3",
    "pydantic-core==2.50.4",
    "python-multipart",
    "pyyaml",
    "pyzmq",
    "referencing",
    "rpds-py",
    "ruff",
    "setproctitle",
    "sniffio",
    "stack-data",
    "starlette",
    "tokenizers==0.22.2",
    "traitlets",
    "transformers==5.6.0",
    "typing-inspection",
    "uvicorn",
    "wcwidth",
]
# pip matches platform tags literally: a wheel for an older system is only found under that system's tag.
PLATFORMS = [
    *(f"manylinux_2_{minor}_x86_64" for minor in (34, 31, 28, 27, 26, 24, 17, 12, 5)),
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
]
# Of the kernels only the sm90 operators, since FlashAttention's library alone is a gigabyte; of sglang only its
# metadata.
UNUSED = (
    "sgl_kernel/flash_ops*",
    "sgl_kernel/sm100/*",
    "sgl_kernel/flashmla*",
    "lib/*",
    "include/*",
    "_mscclpp*",
    "sglang/*",
    "flashinfer/data/cutlass/docs/*",
    "flashinfer/data/cutlass/examples/*",
    "flashinfer/data/cutlass/media/*",
    "flashinfer/data/cutlass/test/*",
    "*.data/*",
)
# Compiled modules are of another Python.
UNUSED_IN_TREES = ("multimodal_gen/*", "test/*", "benchmark/*", "*/__pycache__/*", "*.pyc", "*.so")


def download(requirements: Iterable[str], folder: Path) -> None:
    """Download one wheel per requirement, without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", "3.12", "--implementation", "cp", "--dest", str(folder)]
    for platform in PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, *requirements], check=True)


def unpack(wheels: Path, site: Path) -> None:
    """Unpack every wheel into one folder, without unused files."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            wanted = [name for name in archive.namelist() if not any(fnmatch(name, u) for u in UNUSED)]
            archive.extractall(site, wanted)


def pack(files: Iterable[tuple[str, Path]], archive: Path) -> None:
    """Write the files by name to an xz archive with a large window, which compresses distant repetitions."""
    # The xz program, since the standard library's has one thread and a window of eight megabytes.
    command = ["xz", "--threads=0", "--lzma2=preset=6,dict=128MiB", "--stdout"]
    with archive.open("wb") as output, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output) as xz:
        with tarfile.open(fileobj=xz.stdin, mode="w|") as tar:
            for name, path in files:
                tar.add(path, name)
        if xz.stdin is not None:
            xz.stdin.close()
    if xz.returncode:
        raise click.ClickException(f"xz ended with status {xz.returncode}: see what it says above.")
    click.echo(f"{archive} {archive.stat().st_size / 2**20:.1f} MiB")


def tree_files(trees: dict[str, Path]) -> list[tuple[str, Path]]:
    """Return every tree's files, with the same file of all trees side by side."""
    found = []
    for name, path in trees.items():
        package = open_tree(path).package
        for file in package.rglob("*"):
            below = file.relative_to(package).as_posix()
            if file.is_file() and not any(fnmatch(below, unused) for unused in UNUSED_IN_TREES):
                found.append((below, f"{name}/sglang/{below}", file))
    return [(name, file) for _, name, file in sorted(found)]


def named_places(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Return the places of ``NAME=PLACE`` values."""
    if not all("=" in value for value in values):
        raise click.BadParameter("a tree is given as NAME=PATH or NAME=REPOSITORY@REF.")
    return {name: place for name, _, place in (value.partition("=") for value in values)}


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--tree",
    "trees",
    multiple=True,
    callback=named_places,
    metavar="NAME=PLACE",
    help="A tree to pack, a path or REPOSITORY@REF.",
)
def main(out: Path, trees: dict[str, str]) -> None:
    """Write OUT/site.tar.xz, unless it exists, and OUT/trees.tar.xz."""
    out.mkdir(parents=True, exist_ok=True)
    packages = out / "site.tar.xz"
    if not packages.exists():
        with tempfile.TemporaryDirectory() as work:
            wheels, site = Path(work) / "wheels", Path(work) / "site"
            download([*REQUIREMENTS, SGLANG, KERNELS], wheels)
            unpack(wheels, site)
            pack([("site", site)], packages)
    with tempfile.TemporaryDirectory() as work:
        found = {name: located(place, Path(work) / name) for name, place in trees.items()}
        pack(tree_files(found), out / "trees.tar.xz")


if __name__ == "__main__":
    main()
