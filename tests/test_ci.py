"""What a fork's CI uses is well formed, and says what the command line takes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner
from support.toys import MIRROR, add_patch, attribute, git

from patchkit.cli import main

if TYPE_CHECKING:
    from patchkit.tree.tree import CheckoutTree

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[1]
ACTION = REPOSITORY / ".github" / "actions" / "verify" / "action.yml"
WORKFLOWS = REPOSITORY / ".github" / "workflows"
WORKFLOW = WORKFLOWS / "verify-fork.yml"
EXAMPLE = REPOSITORY / "docs" / "examples" / "fork"


def test_each_hook_is_a_command_with_options_that_exist() -> None:
    for hook in yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text()):
        program, command, *words = hook["entry"].split()
        assert program == "patchkit"
        output = CliRunner().invoke(main, [command, "--help"]).output
        assert all(word in output for word in words)
        assert re.match(hook["files"], "python/sglang/srt/server_args.py")
        assert re.match(hook["files"], "patchkit.toml"), "what a fork wants counts as well"


def test_the_example_names_hooks_and_inputs_that_there_are() -> None:
    hooks = {hook["id"] for hook in yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())}
    config = yaml.safe_load((EXAMPLE / ".pre-commit-config.yaml").read_text())
    assert {hook["id"] for repo in config["repos"] for hook in repo["hooks"]} <= hooks
    calling = yaml.safe_load((EXAMPLE / ".github" / "workflows" / "patchkit.yml").read_text())
    called = yaml.safe_load(WORKFLOW.read_text())
    inputs = called[True]["workflow_call"]["inputs"]  # YAML reads the key `on` as true.
    assert set(calling["jobs"]["verify"]["with"]) <= set(inputs)
    assert {name for name, declared in inputs.items() if declared.get("required")} <= set(
        calling["jobs"]["verify"]["with"]
    )


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    action = yaml.safe_load(ACTION.read_text())
    (step,) = (
        s for s in yaml.safe_load(WORKFLOW.read_text())["jobs"]["verify"]["steps"] if s.get("id") == "verify"
    )
    assert set(step["with"]) == set(action["inputs"])
    assert (REPOSITORY / step["uses"].removeprefix("./.patchkit-source/") / "action.yml") == ACTION


def test_the_action_uses_options_that_verify_has() -> None:
    output = CliRunner().invoke(main, ["verify", "--help"]).output
    options = {
        word for line in ACTION.read_text().splitlines() if '"$bin" verify' in line for word in line.split()
    }
    assert {word for word in options if word.startswith("--")} == {"--min-confidence", "--format"}
    assert all(word in output for word in options if word.startswith("--"))


@pytest.mark.parametrize(("check", "code"), [("true", 1), ("false", 0)])
def test_a_patch_that_is_not_applied_fails_the_check_and_the_action_still_leaves_findings(
    checkout: CheckoutTree, tmp_path: Path, check: str, code: int
) -> None:
    (step,) = (step for step in yaml.safe_load(ACTION.read_text())["runs"]["steps"] if step.get("id"))
    installed = tmp_path / "patchkit" / "bin" / "patchkit"
    installed.parent.mkdir(parents=True)
    installed.write_text(f"#!/bin/sh\nPYTHONPATH='{REPOSITORY}' exec '{sys.executable}' -m patchkit \"$@\"\n")
    installed.chmod(0o755)
    add_patch(tmp_path / "own", "t-flag", attribute(MIRROR, "Mirror", "needs_host = False"))
    applied = (installed, "apply", checkout.root, "--patches", tmp_path / "own", "t-flag")
    subprocess.run(applied, check=True, capture_output=True)
    add_patch(tmp_path / "own", "t-other", attribute(MIRROR, "Mirror", "needs_device = False"))
    script, outputs = tmp_path / "step.sh", tmp_path / "outputs"
    script.write_text(step["run"])
    given = {
        "TREE": str(checkout.root),
        "PATCHES": str(tmp_path / "own"),
        "CONFIDENCE": "likely",
        "CHECK": check,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_OUTPUT": str(outputs),
    }
    assert set(step["env"]) < set(given)
    command = (
        "bash",
        "--noprofile",
        "--norc",
        "-eo",
        "pipefail",
        str(script),
    )  # as a runner has `shell: bash`
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=os.environ | given)
    assert ran.returncode == code, ran.stdout + ran.stderr
    sarif = Path(outputs.read_text().strip().removeprefix("sarif="))
    assert json.loads(sarif.read_text())["runs"]


@pytest.mark.parametrize(
    "path", [WORKFLOW, EXAMPLE / ".github" / "workflows" / "patchkit.yml"], ids=lambda p: p.stem
)
def test_no_input_is_pasted_into_a_script(path: Path) -> None:
    for text in (path.read_text(), ACTION.read_text()):
        for script in re.findall(r"run: \|\n((?:\s{6,}.*\n)+)", text):
            assert "${{" not in script


def test_the_workflow_of_dependencies_runs_what_there_is() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "dependencies.yml").read_text())
    (job,) = workflow["jobs"].values()
    install, check = (step["run"].split() for step in job["steps"] if "run" in step)
    assert install[-1] == '".[release]"'
    assert (REPOSITORY / check[1]).is_file()
    paths = workflow[True]["push"]["paths"]  # YAML takes the word `on` for a truth value.
    assert [path for path in paths if not (REPOSITORY / path).is_file()] == []


def test_the_projects_own_checks_run_on_every_pull_request() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "ci.yml").read_text())
    assert {"push", "pull_request"} <= set(workflow[True])
    assert workflow["permissions"] == {"contents": "read"}
    quick, whole = workflow["jobs"]["quick"], workflow["jobs"]["all"]
    contributing = (REPOSITORY / "CONTRIBUTING.md").read_text()
    for job, script in ((quick, "scripts/test --quick"), (whole, ".ci/run")):
        (command,) = (step["run"] for step in job["steps"] if "run" in step)
        assert command == f"bash {script}"
        assert command in contributing
        assert (REPOSITORY / script.split()[0]).is_file()
    oldest = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["requires-python"]
    assert oldest.removeprefix(">=") in quick["strategy"]["matrix"]["python"]


def test_the_sweep_runs_every_week_what_a_pull_request_leaves_out() -> None:
    workflow = yaml.safe_load((WORKFLOWS / "sweep.yml").read_text())
    assert "schedule" in workflow[True]
    (command,) = (step["run"] for step in workflow["jobs"]["sweep"]["steps"] if "run" in step)
    assert command == "bash scripts/test --all"
    assert command in (REPOSITORY / "CONTRIBUTING.md").read_text()
    *_, golden = (step["run"] for step in workflow["jobs"]["golden"]["steps"] if "run" in step)
    assert "scripts/golden.py --check --clone " in golden


def test_an_action_has_one_version_wherever_it_is_used() -> None:
    files = [*WORKFLOWS.glob("*.yml"), ACTION, *EXAMPLE.rglob("*.yml")]
    used = {
        tuple(name.split("@"))
        for file in files
        for name in re.findall(r"uses: ([\w/-]+@[0-9a-f]{40})", file.read_text())
    }
    assert len(dict(used)) == len(used) > 2


def test_what_ci_runs_is_a_command() -> None:
    hooks = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text())
    commands = [hook["entry"].split()[1] for hook in hooks]
    commands += re.findall(r'"\$bin"\S* ([a-z-]+)', ACTION.read_text())
    assert commands
    assert set(commands) <= set(main.commands)


def test_bounds_are_checked_with_advisories_of_the_newest() -> None:
    script = (REPOSITORY / "scripts" / "check_bounds.py").read_text()
    extra = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    tools = {name.replace("_", "-") for name in re.findall(r'"-m", "(uv|pip_audit)"', script)}
    assert tools == {re.split("[<>=]", each)[0] for each in extra["release"]} == {"uv", "pip-audit"}


PORT = REPOSITORY / ".github" / "actions" / "port"


def ported_in_ci(checkout: CheckoutTree, tmp_path: Path, *branches: str) -> tuple[int, str, list[str]]:
    """Run the action on the last commit; return the exit code, what it says, and the words that each gh was given."""
    origin, tools, asked = tmp_path / "origin.git", tmp_path / "tools", tmp_path / "asked"
    git(tmp_path, "clone", "-q", "--bare", str(checkout.root), str(origin))
    git(checkout.root, "remote", "add", "origin", str(origin))
    tools.mkdir()
    (tools / "gh").write_text(f'#!/bin/sh\necho "$@" >>{asked}\ncat "${{11}}" >>{asked}.body\n')
    (tools / "gh").chmod(0o755)
    (tools / "patchkit").write_text(f'#!/bin/sh\nexec {sys.executable} -m patchkit "$@"\n')
    (tools / "patchkit").chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "REPOSITORY": str(checkout.root),
        "COMMIT": "HEAD",
        "BRANCHES": " ".join(branches),
        "PYTHONPATH": str(REPOSITORY),
    }
    done = subprocess.run(
        ["bash", str(PORT / "port.sh")], env=environment, capture_output=True, text=True, check=False
    )
    said = asked.read_text().splitlines() if asked.exists() else []
    return done.returncode, done.stdout + done.stderr, said


def test_a_labelled_commit_is_a_draft_pull_request_on_each_branch_that_takes_it(
    checkout: CheckoutTree, tmp_path: Path
) -> None:
    mirror = checkout.package / MIRROR
    before = mirror.read_text()
    git(checkout.root, "branch", "release/a")
    git(checkout.root, "checkout", "-q", "-b", "release/gone", "HEAD")
    mirror.write_text("x = 1\n")
    git(checkout.root, "commit", "-qam", "another file")
    git(checkout.root, "checkout", "-q", "-b", "work", "release/a")
    mirror.write_text(before.replace("class Mirror:", "class Mirror:\n    depth = 2\n", 1))
    git(checkout.root, "commit", "-qam", "Mirrors have a depth")
    code, said, asked = ported_in_ci(checkout, tmp_path, "release/a", "release/gone")
    assert code == 1
    assert "could be made on release/gone: the reports above say why" in said
    (words,) = asked
    assert "--draft --base release/a --head patchkit/port-" in words
    assert "--title Mirrors have a depth (release/a)" in words
    body = (tmp_path / "asked.body").read_text()
    assert "srt/" in body
    pushed = git(
        tmp_path / "origin.git", "log", "--format=%s, %an", "-1", words.split("--head ")[1].split()[0]
    )
    assert pushed.strip() == "Mirrors have a depth, A Person"
    assert git(checkout.root, "worktree", "list").count("\n") <= 1, "no worktree is left"


def test_a_branch_that_has_the_commit_needs_no_pull_request(checkout: CheckoutTree, tmp_path: Path) -> None:
    mirror = checkout.package / MIRROR
    mirror.write_text(mirror.read_text().replace("class Mirror:", "class Mirror:\n    depth = 2\n", 1))
    git(checkout.root, "commit", "-qam", "Mirrors have a depth")
    git(checkout.root, "branch", "release/a")
    code, said, asked = ported_in_ci(checkout, tmp_path, "release/a")
    assert (code, asked) == (0, []), said
