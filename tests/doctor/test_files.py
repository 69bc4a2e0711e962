"""Servers are found in files of each kind that starts them, with file, line and environment."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from doctor.test_doctor import fork, run  # noqa: F401  # the fixture

from patchkit.doctor.files import servers_of_file

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = ["--model-path", "m", "--tp", "2"]
PLAIN = "python -m sglang.launch_server --model-path m --tp 2"
LISTED = json.dumps(PLAIN.split())

COMPOSE_TEXT = (
    f"services:\n  a:\n    image: i\n    environment:\n      X: '1'\n    command: >\n      {PLAIN}\n"
)
COMPOSE_LIST = f"services:\n  a:\n    environment: [X=1, Y]\n    command: {LISTED}\n"
COMPOSE_ENTRY = (
    "services:\n  a:\n    environment: [X=1]\n"
    "    entrypoint: python3 -m sglang.launch_server\n    command: --model-path m --tp 2\n"
)
POD = (
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    env:\n    - {name: X, value: '1'}\n"
    "    - {name: Y, valueFrom: {secretKeyRef: {name: s}}}\n"
    "    command: [python3, -m, sglang.launch_server]\n    args:\n    - --model-path\n    - m\n    - --tp\n    - '2'\n"
)
POD_OF_A_SHELL = (
    "kind: Deployment\nspec:\n  containers:\n  - env: [{name: X, value: '1'}]\n    command: [bash, -c]\n"
    f"    args:\n    - |\n      set -e\n      {PLAIN}\n"
)
WORKFLOW = f"jobs:\n  a:\n    steps:\n    - run: |\n        export X=1\n        {PLAIN}\n"
RECIPE = (
    "backend:\n  prefill_environment: {X: '1'}\n  sglang_config:\n    prefill:\n      model_path: m\n      tp: 2\n"
    "      disable-radix-cache: false\n"
)
JOB = f"#!/bin/bash\n#SBATCH --nodes=2\nexport X=1\nsrun --ntasks=2 \\\n  {PLAIN} &\nwait\n"
SCRIPT = "return `python -m sglang.launch_server --model-path ${model}`;\n"
TEMPLATE = f"{{{{- if .Values.x }}}}\nexport X=1\n{PLAIN}\n{{{{- end }}}}\n"


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("run.sh", f"#!/bin/bash\nexport X=1\n{PLAIN}\n", 3),
        ("README.md", f"A server:\n\n```bash\nexport X=1\n{PLAIN}\n```\n{PLAIN}\n", 5),
        ("guide.mdx", f"- one\n\n  ~~~\n  export X=1\n  {PLAIN}\n  ~~~\n", 5),
        (
            "guide.md",
            f"```js\n{SCRIPT}```\n1. one\n   ```bash\n   export X=1\n   {PLAIN}\n    ```\nthen ```b``` do\n",
            7,
        ),
        ("guide.md", f"```yaml\n{POD}```\n", 10),
        ("guide.md", f"```dockerfile\nENV X=1\nCMD {LISTED}\n```\n", 3),
        ("job.sbatch", JOB, 4),
        ("Dockerfile", f"FROM i\nENV X=1 \\\n    B=$C\nCMD {LISTED}\n", 4),
        ("Dockerfile.cuda", f"FROM i\nENV X 1\nENTRYPOINT {PLAIN}\n", 3),
        (
            "Dockerfile",
            f'ENV X=1\nENTRYPOINT {json.dumps(PLAIN.split()[:3])}\nCMD ["--model-path", "m", "--tp", "2"]\n',
            3,
        ),
        ("compose.yaml", COMPOSE_TEXT, 7),
        ("compose.yml", COMPOSE_LIST, 4),
        ("compose.yml", COMPOSE_ENTRY, 4),
        ("pod.yaml", f"kind: Service\n---\n{POD}", 11),
        ("deployment.yaml", POD_OF_A_SHELL, 9),
        ("workflow.yml", WORKFLOW, 6),
        ("recipe.yaml", RECIPE, 4),
        ("template.yaml", TEMPLATE, 3),
    ],
)
def test_a_server_is_found_in_a_file_with_its_line_and_environment(name: str, text: str, line: int) -> None:
    (server,) = servers_of_file(name, text)
    assert ([word.text for word in server.options], server.line, server.environment) == (
        OPTIONS,
        line,
        {"X": "1"},
    )


@pytest.mark.parametrize(
    "text", ["a: &a [*a]\n", "a: [1", "- x\n", "", "kind: Pod\nspec: {command: [sleep, '9']}\n"]
)
def test_a_manifest_without_a_server_has_none(text: str) -> None:
    assert list(servers_of_file("a.yaml", text)) == []


def test_files_are_answered_by_a_row_for_each_of_their_servers(fork: Path, tmp_path: Path) -> None:  # noqa: F811
    recipes = tmp_path / "recipes"
    recipes.mkdir()
    usual = "--speculative-algorithm EAGLE3 --disable-piecewise-cuda-graph"
    (recipes / "a.sh").write_text(
        f"sglang serve --attention-backend free {usual} --tp-size $TP\nsglang serve --attention-backend held {usual}\n"
    )
    (recipes / "b.md").write_text("```\nsglang serve --no-such 1\n```\n")
    (recipes / "server.yaml").write_text(
        "model-path: m\nattention-backend: held\nspeculative-algorithm: EAGLE3\n"
    )
    answer: Any = json.loads(run(fork, recipes, "--json").stdout)
    rows = [(row["line"], row["kept"], row["unknown"], bool(row["refused"])) for row in answer["servers"]]
    assert rows == [
        (1, False, ["$TP"], False),
        (2, True, [], False),
        (2, False, [], True),
        (1, True, [], False),
    ]
    shown = run(fork, recipes / "a.sh", recipes / "b.md").stdout
    assert f"{recipes / 'a.sh'}:2  kept" in shown
    assert re.search(
        r"b\.md:2: srt/server_args\.py:\d+: this tree's server refuses the options: unrecog", shown
    )


def test_a_recipes_options_are_those_of_each_role() -> None:
    text = "sglang_config:\n  a:\n    x: true\n    y: [1, 2]\n    z: {b: 1}\n    n: null\n  b: {w: '{{ v }}'}\n  c: 1\n"
    first, second = servers_of_file("a.yaml", text)
    known = [(word.text, word.known) for word in first.options]
    assert known == [("--x", True), ("--y", True), ("1", True), ("2", True), ("--z", True), ("$z", False)]
    assert [word.known for word in second.options] == [True, False]


def test_a_configuration_file_of_another_machine_is_unknown_and_nothing_is_refused(
    fork: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    (tmp_path / "run.sh").write_text(
        "sglang serve --config /srv/own.yaml --tp-size 2\nsglang serve --config=/srv/own.yaml\n"
    )
    answer: Any = json.loads(run(fork, tmp_path / "run.sh", "--json").stdout)
    assert [(row["unknown"], row["refused"]) for row in answer["servers"]] == [
        (["/srv/own.yaml"], ""),
        (["--config=/srv/own.yaml"], ""),
    ]
    assert "/srv/own.yaml" in answer["servers"][0]["notes"][0]


def test_files_without_a_server_are_a_sentence(fork: Path, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "a.sh").write_text("sleep 1\n")
    assert "a.sh: no command in it starts an sglang server" in run(fork, tmp_path / "a.sh", code=2).stderr
