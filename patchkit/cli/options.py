"""Options and arguments that several commands share, and what they mean: the tree and the patches."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from patchkit.cli.topics import SUMMARIES
from patchkit.errors import RefusedRepositoryError, TreeError, UsageError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from patchkit.patchset.select import PatchSet
    from patchkit.tree.tree import CheckoutTree

_Command = TypeVar("_Command", bound=Callable[..., None])

_NOTED = f"{__name__}.noted"
_OPENED = f"{__name__}.opened"
_TARGET = f"{__name__}.target"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
CONFIDENCES = ("certain", "likely", "possible")


class Target(NamedTuple):
    """What a command was given of the arguments and options that several have: the tree and the patches.

    ``words`` are those that may be either; ``target`` tells which they are.
    """

    tree: str | None = None
    installed: bool = False
    folders: Sequence[Path] = ()
    as_json: bool = False
    words: Sequence[str] = ()
    ids: tuple[str, ...] = ()

    def on(self, tree: str | None, ids: tuple[str, ...] = ()) -> Target:
        """Return the same options with this TREE and these patches."""
        return self._replace(tree=tree, words=(), ids=ids)

    @property
    def tail(self) -> str:
        """The arguments that select the same tree and patch folders in another command."""
        words = [self.tree] if self.tree else ["--installed"] if self.installed else []
        return "".join(f" {shlex.quote(word)}" for word in words) + self.folders_tail

    @property
    def folders_tail(self) -> str:
        """The arguments that select the same patch folders in another command."""
        return "".join(f" --patches {shlex.quote(str(folder))}" for folder in self.folders)

    @property
    def whole_tail(self) -> str:
        """The same arguments with the named patches."""
        return self.tail + "".join(f" {shlex.quote(name)}" for name in self.ids)

    def open(self) -> CheckoutTree:
        """Open the tree, which commands in messages then name.

        Raise UsageError if two are named, TreeError if it is not an sglang tree.
        """
        click.get_current_context().meta[_TARGET] = self
        return self.opened()

    def opened(self) -> CheckoutTree:
        """Return the tree, which a command opens once. Raise the errors of ``open``."""
        from patchkit.patchset import load
        from patchkit.tree.tree import installed_tree, open_tree

        if self.installed and self.tree:
            raise UsageError(
                f"--installed cannot be combined with {self.tree}", advice="leave out one of them"
            )
        if self.tree and not os.path.exists(self.tree) and load.is_built_in(self.tree):
            command = click.get_current_context().info_name
            raise UsageError(f"{self.tree} is a patch, and {command} takes none", advice="leave it out")
        trees = click.get_current_context().meta.setdefault(_OPENED, {})
        key = self.tree, self.installed
        if key not in trees:
            trees[key] = installed_tree() if self.installed else open_tree(located(self.tree))
        opened: CheckoutTree = trees[key]
        return opened

    def style(self, style: str) -> str:
        """Return the output format of ``--format`` and ``--json``. Raise UsageError if they contradict each other."""
        if self.as_json and style not in ("text", "json"):
            raise UsageError(
                f"--json cannot be combined with --format {style}", advice="leave out one of them"
            )
        return "json" if self.as_json else style

    def patches(self, *, cached: bool = False) -> PatchSet:
        """Return the built-in patches, those in ``folders``, and those of the fork's configuration.

        The fork is the tree among the words, or the tree that contains the current folder. Without a tree, the command
        itself raises the error when it opens it. ``cached`` is for commands that write nothing.
        """
        from patchkit.patchset import load

        words = filter(None, (*self.words, self.tree))
        trees = [Target(word) for word in words if os.path.exists(word) and not load.is_built_in(word)]
        for target in (Target(installed=True),) if self.installed else (*trees, Target()):
            try:
                return load.patches(self.folders, target.opened().fork, cached=cached)
            except RefusedRepositoryError:  # What it configures is unknown.
                raise
            except TreeError:
                continue
        return load.patches(self.folders, cached=cached)

    def with_recorded(self, patches: PatchSet) -> PatchSet:
        """Return the patches with those that only the tree's record or git's history names, as of a port."""
        from patchkit.patchset.select import PatchSet
        from patchkit.transaction.conflicts import placeholder
        from patchkit.transaction.current import absent
        from patchkit.transaction.revert import ported, recorded, recorded_ports

        words = [word for word in self.words if word not in patches]
        names: tuple[str, ...] = ()
        with suppress(TreeError, UsageError):
            there = self.on(next(filter(os.path.exists, words), None)).opened()
            names = (*recorded(there), *absent(there))
            if any(word not in names and not os.path.exists(word) for word in words):
                names = tuple(dict.fromkeys((*names, *recorded_ports(there), *ported(there))))
        others = (placeholder(name) for name in names if name not in patches)
        return PatchSet((*patches, *others), patches.digest, patches.settings)

    def target(self, patches: PatchSet, *, everything: bool = False) -> Target:
        """Return the TREE and the patch ids among the words. Raise UsageError for a word that is neither."""
        ids = tuple(word for word in self.words if word in patches)
        others = [word for word in self.words if word not in patches]
        trees = [word for word in others if os.path.exists(word)]
        unknown = [word for word in others if word not in trees]
        patches.named(filter(patches.is_part, unknown))
        if unknown and (trees or self.installed or len(unknown) > 1 or _is_id(unknown[0])):
            patches.named([unknown[-1]])
        if unknown and os.sep not in unknown[0]:
            raise unknown_word(unknown[0], patches)
        if len(others) > 1:
            raise UsageError(f"two trees are named, {others[0]} and {others[1]}", advice="name one of them")
        if everything and ids:
            raise UsageError(f"--all cannot be combined with {ids[0]}", advice="leave out one of them")
        return self.on(others[0] if others else None, ids)


def typed_parameters() -> list[click.Parameter]:
    """Return the parameters of the command that were given on the command line."""
    context = click.get_current_context()
    return [
        param
        for param in context.command.params
        if context.get_parameter_source(str(param.name)) is ParameterSource.COMMANDLINE
    ]


def typed(*names: str) -> Iterator[str]:
    """Yield the words of those of these options that were given on the command line."""
    for param in typed_parameters():
        if isinstance(param, click.Option) and param.name in names:
            values = click.get_current_context().params[param.name]
            for value in () if param.is_flag else values if param.multiple else (values,):
                yield from (param.opts[0], str(value))
            if param.is_flag:
                yield param.opts[0]


def runnable(text: str) -> str:
    """Return a message in which each command of patchkit names the tree and the patch folders of this command."""
    from patchkit.findings.suggestion import completed

    target = click.get_current_context().meta.get(_TARGET)
    return completed(text, target.tail, target.folders_tail) if target is not None else text


def located(tree: str | None) -> Path:
    """Return the folder of TREE, by default the tree that contains the current folder, which a note then names."""
    if tree is not None and Path(tree) != Path():
        return Path(tree)
    from patchkit.findings.printable import printable
    from patchkit.tree.tree import folder_around, open_tree

    folder = folder_around(Path())
    if folder != Path():
        folder = open_tree(folder).root
        state = click.get_current_context().meta
        if _NOTED not in state:
            state[_NOTED] = True
            click.echo(f"note: using the sglang tree in {printable(str(folder))}", err=True)
    return folder


def command(
    name: str, *declared: Callable[[Any], Any], **settings: Any
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Return a decorator that makes a command of a function, with these arguments and options in this order.

    The function gets those of ``Target`` as one of it, and returns the exit code, None for 0. Its docstring is what the
    command's help says below the summary.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        def called(**values: Any) -> None:
            given = Target(**{name: values.pop(name) for name in Target._fields if name in values})
            if code := function(given, **values):
                click.get_current_context().exit(code)

        make: Any = click.command(name, help=f"{SUMMARIES[name]}\n\n    {function.__doc__}", **settings)
        made: click.Command = make(options(*declared)(called))
        made.epilog = _explained(made)
        return made

    return decorate


_TREE = (
    "TREE is an sglang checkout, its python folder, the package folder or site-packages (default: the tree that "
    "contains the current folder)."
)
_PATCH = (
    "PATCH is a patch's name, as listed by patchkit show, or the name of a group of patches, such as @mirror. Any "
    "other word is taken as TREE."
)


def _explained(command: click.Command) -> str:
    """Return the explanation of TREE and PATCH for a command that takes them."""
    taken = {word for param in command.params for word in (param.metavar or "").split()}
    paragraphs = [_TREE] if taken & {"TREE", "[TREE]"} else []
    return "\n\n".join([*paragraphs, _PATCH] if "[PATCH]..." in taken else paragraphs)


def options(*declared: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds several arguments and options to a command, in this order."""

    def decorate(command: _Command) -> _Command:
        for option in reversed(declared):
            command = option(command)
        return command

    return decorate


def completed(context: click.Context, _: click.Parameter, start: str) -> list[CompletionItem]:
    """Return what a shell completes: patches and groups that begin so, with those of ``--patches``, and folders."""
    from click.shell_completion import CompletionItem

    from patchkit.patchset import load

    patches = load.patches(context.params.get("folders") or (), cached=True)
    names = [*patches.ids, *patches.groups]
    return [
        *(CompletionItem(name) for name in names if start and name.startswith(start)),
        CompletionItem(start, type="dir"),
    ]


def flag(names: str, text: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds an option without a value, by its names and its parameter's, with this help text."""
    return click.option(*names.split(), is_flag=True, help=text)


tree = click.argument("tree", required=False, metavar="[TREE]")
tree_and_patches = click.argument("words", nargs=-1, metavar="[TREE] [PATCH]...", shell_complete=completed)
installed = flag("--installed", "Use the sglang installed in this Python environment.")
folders = click.option(
    "--patches",
    "folders",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Also load the patches in DIR; may be repeated.",
)
as_json = flag("--json as_json", "Print JSON instead of text.")
shared = options(installed, folders, as_json)
baseline = click.option(
    "--baseline",
    metavar="FILE",
    type=FILE,
    help="Fail only on findings that are not in FILE, the saved output of `patchkit audit --json`.",
)
output = click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the result to FILE."
)
allow_dirty = flag("--allow-dirty", "Also change files that have uncommitted changes.")


def output_folder(text: str, *, required: bool = False) -> Callable[[_Command], _Command]:
    """Return a decorator that adds ``--output DIR`` with this help text."""
    kind: click.Path[Path] = click.Path(file_okay=False, path_type=Path)
    return click.option("-o", "--output", "folder", required=required, metavar="DIR", type=kind, help=text)


def styled(formats: Sequence[str]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds ``--format``, with these formats, and ``--json``, for ``Target.style``."""
    return options(
        click.option(
            "--format",
            "style",
            type=click.Choice(formats),
            default="text",
            show_default=True,
            help="Output format.",
        ),
        flag("--json as_json", "The same as --format json."),
    )


def unknown_word(word: str, patches: PatchSet) -> UsageError:
    """Return the error for a word that is neither a folder nor a patch."""
    hint = patches.spelling_hint(word)
    return UsageError(
        f"no such folder and no such patch: {word}", advice=f"{hint}patchkit show lists the patches"
    )


def _is_id(word: str) -> bool:
    """Return whether a word is more likely a patch than a folder: the number of a pull request, or a group."""
    return word.isdigit() or word.startswith("@")
