"""Servers are found in what people type and keep in scripts, with what the text tells of their options."""

from __future__ import annotations

import subprocess
import sys

import pytest

from patchkit.doctor.command_line import ServerCommand, servers

OPTIONS = ["--model-path", "m", "--tp", "2"]
PLAIN = "python -m sglang.launch_server --model-path m --tp 2"


def options(server: ServerCommand) -> list[str]:
    """Return a server's options; what is not known has a question mark in front."""
    return [word.text if word.known else f"?{word.text}" for word in server.options]


def only(text: str) -> ServerCommand:
    (server,) = servers(text)
    return server


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        f"{PLAIN} > log.txt 2>&1 &",
        f"yes | {PLAIN} 2>&1 | tee log",
        f"cd /srv && {PLAIN}; echo done",
        f"(cd /srv; {PLAIN}) || exit 1",
        f"# A server.\n{PLAIN}  # with two GPUs\n",
        "python -m sglang.launch_server \\\n  --model-path m \\\n  --tp 2\n",
        "python -m sglang.launch_server \\\r\n  --model-path m \\\r\n  --tp 2\r\n",
        "python -m sglang.launch_server \\  \n  --model-path m \\ # the model\n  --tp 2\n",
        "python -m sglang.launch_server \\\n  --model-path m \\\n  # --dp 4 \\\n  --tp 2\n",
        "python -m sglang.launch_server\n  --model-path m\n  --tp 2\n",
        "python -m sglang.launch_server --model-path m > log --tp 2",
        f"{PLAIN}\n- Low concurrency:\n",
        "python3 /opt/sglang/python/sglang/launch_server.py --model-path m --tp 2",
        "sglang serve --model-path m --tp 2",
        "sglang serve m --tp 2",
        f"nohup {PLAIN} &",
        f"timeout 10m {PLAIN}",
        f"exec {PLAIN}",
        f"sudo -E env X=1 {PLAIN}",
        f"srun --ntasks=2 {PLAIN}",
        f"srun bash -c '{PLAIN}'",
        f'ssh node "cd /srv && {PLAIN}"',
        f"kubectl exec -it pod -- {PLAIN}",
        "torchrun --nproc-per-node 2 -m sglang.launch_server --model-path m --tp 2",
        f"docker run --gpus all image {PLAIN}",
        f"docker exec server sh -c '{PLAIN}'",
        f"PID=$({PLAIN} & echo $!)",
        f"cat > run.sh <<'EOF'\n#!/bin/bash\n{PLAIN}\nEOF\n",
        f"bash <<EOF | tee log\n{PLAIN}\nEOF\n",
        f"start() {{\n  {PLAIN}\n}}\n",
        f"if true; then {PLAIN}; fi",
        f"for n in 1 2; do {PLAIN}; done",
        f"case $1 in a) {PLAIN} ;; esac",
        'ARGS=(--model-path m # its name\n  --tp 2)\npython -m sglang.launch_server "${ARGS[@]}"',
        "ARGS=(--model-path m)\nARGS+=(--tp 2)\npython -m sglang.launch_server ${ARGS[@]}",
        "ARGS='--model-path m --tp 2'\npython -m sglang.launch_server $ARGS",
        'M=m N=2; python -m sglang.launch_server --model-path "$M" --tp ${N}',
        'python -m sglang.launch_server --model-path "${M:-m}" --tp ${N:-2}',
        "export M=m\nbash -c 'python -m sglang.launch_server --model-path $M --tp 2'",
    ],
)
def test_a_server_is_found_in_what_a_shell_runs(text: str) -> None:
    assert options(only(text)) == OPTIONS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('--tp "$TP" --port ${PORT}', ["--tp", "?$TP", "--port", "?${PORT}"]),
        ("--tp=$TP $EXTRA", ["?--tp=$TP", "?$EXTRA"]),
        ("--tp $(nvidia-smi -L | wc -l)", ["--tp", "?$(nvidia-smi -L | wc -l)"]),
        ("--tp $((2 * 4)) `cat options`", ["--tp", "?$((2 * 4))", "?`cat options`"]),
        ("\n--tp=2 --dp=$DP\n--ep=4\n--x=y --z", ["--tp=2", "?--dp=$DP", "--ep=4", "--x=y", "--z"]),
        ('"${ARGS[@]}" "$@"', ["?${ARGS[@]}", "?$@"]),
        ("--tp ${1} --model-path <your model>", ["--tp", "?${1}", "--model-path", "?<your model>"]),
        ("--port '[your port]' [args]", ["--port", "?[your port]", "?[args]"]),
        ("--tp {{ .Values.tp }} ...", ["--tp", "?{{ .Values.tp }}", "?..."]),
        ('--override \'{"a": "$b"}\'', ["--override", '{"a": "$b"}']),
        ("--model-path $BASE/m", ["--model-path", "?$BASE/m"]),
    ],
)
def test_what_the_text_does_not_tell_is_not_known(text: str, expected: list[str]) -> None:
    assert options(only(f"python -m sglang.launch_server {text}")) == expected


def test_what_only_a_branch_sets_is_known_there_alone() -> None:
    text = (
        'TP=1; A=(--x)\nif [ -n "$BIG" ]; then TP=8; sglang serve --tp $TP; fi\n'
        '[ -n "$Z" ] && A+=(--z)\nsglang serve --tp $TP "${A[@]}"\n'
    )
    assert [options(server) for server in servers(text)] == [
        ["--tp", "8"],
        ["--tp", "?$TP", "--x", "?$A"],
    ]


def test_a_servers_environment_is_that_of_its_command() -> None:
    text = "export A=1 B=$X\nC=3 env D=4 docker run -e E=5 --env=F=6 -e G image sglang serve --tp 2\n"
    assert only(text).environment == {"A": "1", "C": "3", "D": "4", "E": "5", "F": "6"}


def test_each_server_of_a_text_has_its_line() -> None:
    text = f"set -e\n{PLAIN} &\n\nbash -c '\n{PLAIN}'\ncat <<EOF\nx\n{PLAIN}\nEOF\n"
    assert [server.line for server in servers(text)] == [2, 5, 8]


@pytest.mark.parametrize(
    "text",
    [
        "python -m dynamo.sglang --model-path m --tp 2",
        "python3 -m sglang_router.launch_server --model-path m --tp 2",
        "python -m sglang.bench_one_batch --model-path m --tp 2",
        "python3 benchmark/bench_offline_throughput.py --model-path m --tp 2",
        "ray job submit -- python train.py --lr 1 --hf-checkpoint m --sglang-tp 2 --seed 3",
    ],
)
def test_a_program_that_takes_a_servers_options_may_have_others(text: str) -> None:
    server = only(text)
    assert (options(server), server.is_alone) == (OPTIONS, False)


@pytest.mark.parametrize(
    "text",
    [
        "pkill -f sglang.launch_server",
        "ps aux | grep launch_server.py",
        f'echo "{PLAIN}"',
        "python -m sglang.launch_server --help",
        "python -m sglang.bench_one_batch_server --model None --base-url http://x",
        "pip install sglang",
        "python -m sglang.bench_serving --backend sglang",
        "vllm serve m",
        "if [",
        "x=1\n`python -m sglang.launch_server ${X[y.z]}",
        "```\nAdd `--sglang-x`, as in\n\n  ```bash\n",
        'export X=\'bash -c "$X $X sglang.launch_server"\'\nbash -c "$X"',
    ],
)
def test_a_command_that_starts_no_server_is_none(text: str) -> None:
    assert list(servers(text)) == []


def test_other_commands_do_not_load_the_parser() -> None:
    code = (
        "import sys, patchkit.cli.doctor, patchkit.doctor.command_line; print('tree_sitter' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"
