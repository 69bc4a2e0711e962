"""Which expressions and statements of a step without the mirror fail, one at a time."""

from __future__ import annotations

import textwrap

import pytest
from support.audited import expected, program

from patchkit.audit.engine import audit


def rules(body: str) -> list[str]:
    """Return the rules of the findings in a function with this body."""
    source = f"def plan(batch, other, flag, table):\n{textwrap.indent(body, '    ')}\n"
    return [finding.rule for finding in audit(program(source)).findings]


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        ("batch.seq_lens_cpu.max()", "PK101"),
        ("batch.seq_lens_cpu.shape", "PK101"),
        ("getattr(batch.seq_lens_cpu, 'shape')", "PK101"),
        ("getattr(batch, 'seq_lens_cpu').shape", "PK101"),
        ("getattr(batch, 'seq_lens_cpu', 1).shape", "PK101"),
        ("unknown(batch.seq_lens_cpu.max())", "PK101"),
        ("unknown(key=batch.seq_lens_cpu.max())", "PK101"),
        ("table[0](batch.seq_lens_cpu.max())", "PK101"),
        ("max(1, key=batch.seq_lens_cpu.max)", "PK101"),
        ("f'{batch.seq_lens_cpu.max()}'", "PK101"),
        ("{1: batch.seq_lens_cpu.max()}", "PK101"),
        ("{batch.seq_lens_cpu.max(): 1}", "PK101"),
        ("lambda: batch.seq_lens_cpu.max()", "PK101"),
        ("[batch.seq_lens_cpu, 1][0].max()", "PK101"),
        ("(found := batch.seq_lens_cpu).max()", "PK101"),
        ("batch.seq_lens_cpu.max() if flag else 1", "PK101"),
        ("flag and batch.seq_lens_cpu.max()", "PK101"),
        ("(flag and batch.seq_lens_cpu).max()", "PK101"),
        ("(flag or batch.seq_lens_cpu).max()", "PK101"),
        ("(batch.seq_lens_cpu and 1).max()", "PK101"),
        ("(not flag and batch.seq_lens_cpu.max())", "PK101"),
        ("[each.max() for each in [batch.seq_lens_cpu]]", "PK101"),
        ("[each.max() for each in [1, batch.seq_lens_cpu]]", "PK101"),
        ("[each for each in table if batch.seq_lens_cpu.max()]", "PK101"),
        ("{1: batch.seq_lens_cpu.max() for each in table}", "PK101"),
        ("{batch.seq_lens_cpu.max(): 1 for each in table}", "PK101"),
        ("bool(batch.seq_lens_cpu.max())", "PK101"),
        ("isinstance(batch.seq_lens_cpu.max(), int)", "PK101"),
        ("copy(batch).seq_lens_cpu.max()", "PK101"),
        ("copy.copy(batch).seq_lens_cpu.max()", "PK101"),
        ("dataclasses.replace(batch, reqs=[]).seq_lens_cpu.max()", "PK101"),
        ("batch.seq_lens_cpu[0]", "PK102"),
        ("batch.seq_lens_cpu[1:]", "PK102"),
        ("[each for each in batch.seq_lens_cpu]", "PK103"),
        ("{each for each in batch.seq_lens_cpu}", "PK103"),
        ("{each: 1 for each in batch.seq_lens_cpu}", "PK103"),
        ("list(each for each in batch.seq_lens_cpu)", "PK103"),
        ("[one for each in table for one in batch.seq_lens_cpu]", "PK103"),
        ("unknown(*batch.seq_lens_cpu)", "PK103"),
        ("unknown(**batch.seq_lens_cpu)", "PK103"),
        ("[*batch.seq_lens_cpu]", "PK103"),
        ("1 in batch.seq_lens_cpu", "PK103"),
        ("1 not in batch.seq_lens_cpu", "PK103"),
        ("0 < 1 in batch.seq_lens_cpu", "PK103"),
        ("batch.seq_lens_sum + 1", "PK104"),
        ("1 + batch.seq_lens_sum", "PK104"),
        ("-batch.seq_lens_sum", "PK104"),
        ("(batch.seq_lens_sum + 1) in table", "PK104"),
        ("table[batch.seq_lens_sum + 1]", "PK104"),
        ("table[batch.seq_lens_sum + 1 :]", "PK104"),
        ("batch.seq_lens_sum > 1", "PK105"),
        ("1 >= batch.seq_lens_sum", "PK105"),
        ("batch.seq_lens_sum == 1", "PK105"),
        ("batch.seq_lens_sum != flag", "PK105"),
        ("0 < flag <= batch.seq_lens_sum", "PK105"),
        ("0 < batch.seq_lens_sum", "PK105"),
        ("unknown(batch.seq_lens_sum < 1)", "PK105"),
        ("len(batch.seq_lens_cpu)", "PK106"),
        ("sum([batch.seq_lens_cpu])", "PK106"),
        ("max(1, batch.seq_lens_sum)", "PK106"),
        ("map(str, batch.seq_lens_cpu)", "PK106"),
        ("torch.tensor(batch.seq_lens_cpu)", "PK107"),
        ("torch.tensor([1, batch.seq_lens_sum])", "PK107"),
        ("torch.nn.functional.pad(1, pad=batch.seq_lens_sum)", "PK107"),
        ("np.array(batch.seq_lens_cpu)", "PK107"),
        ("flag.copy_(batch.seq_lens_cpu)", "PK109"),
        ("flag.fill_(value=batch.seq_lens_sum)", "PK109"),
        ("flag.index_select(0, batch.seq_lens_cpu)", "PK109"),
        ("table[: batch.seq_lens_sum]", "PK110"),
        ("table[batch.seq_lens_sum :]", "PK110"),
        ("table[:: batch.seq_lens_sum]", "PK110"),
    ],
)
def test_an_expression_that_fails(expression: str, rule: str) -> None:
    assert rules(f"return {expression}") == [rule]


@pytest.mark.parametrize(
    "expression",
    [
        "batch.seq_lens_cpu",
        "batch.seq_lens.max()",
        "unknown(batch.seq_lens_cpu)",
        "unknown(lens=batch.seq_lens_cpu)",
        "getattr(batch.seq_lens_cpu, 'shape', None)",
        "getattr(batch, flag)",
        "[batch.seq_lens_cpu, 1][1].max()",
        "[batch.seq_lens_cpu, 1][2].max()",
        "[batch.seq_lens_cpu, 1][flag].max()",
        "[1 for each in [batch.seq_lens_cpu]]",
        "[each for each in table if batch.seq_lens_cpu]",
        "[each for each in table if batch.seq_lens_cpu is not None if batch.seq_lens_cpu.max()]",
        "[one for one in table if batch.seq_lens_cpu is not None for each in batch.seq_lens_cpu]",
        "{one: each for one in table if None for each in batch.seq_lens_cpu}",
        "lambda batch: batch.max()",
        "lambda lens, *, other: lens.max()",
        "(batch.seq_lens_cpu or flag).max()",
        "(batch.seq_lens_cpu and batch.seq_lens_cpu.max())",
        "(batch.seq_lens_cpu is None or batch.seq_lens_cpu.max())",
        "(batch.seq_lens_cpu is not None and flag and batch.seq_lens_cpu.max())",
        "not batch.seq_lens_cpu",
        "batch.seq_lens_cpu is flag",
        "batch.seq_lens_cpu in table",
        "batch.seq_lens_cpu in (None, 1)",
        "batch.seq_lens_sum == None",
        "None != batch.seq_lens_sum",
        "batch.seq_lens_sum == batch.seq_lens_cpu",
        "bool(batch.seq_lens_cpu)",
        "str(batch.seq_lens_cpu)",
        "map(batch.seq_lens_cpu, table)",
        "isinstance(batch.seq_lens_cpu, int)",
        "isinstance(*table)",
        "isinstance(batch.seq_lens_cpu, list) and batch.seq_lens_cpu[0]",
        "flag.copy(batch.seq_lens_cpu)",
        "flag._copy_(batch.seq_lens_cpu)",
        "torch_like.tensor(batch.seq_lens_cpu)",
        "table[batch.seq_lens_sum]",
        "replace(batch, seq_lens_cpu=flag).seq_lens_cpu.max()",
        "dataclasses.replace(batch, seq_lens_cpu=flag).seq_lens_cpu.max()",
        "copy.deepcopy()",
        "flag.capture(batch.seq_lens_cpu)",
        "batch.reqs == Elsewhere.FIRST",
        "not batch.enable_overlap and batch.seq_lens_cpu.max()",
        "table[0].batch.seq_lens_cpu.max()",
        "batch.forward_mode.is_idle() and batch.seq_lens_cpu.max()",
        "batch.spec_algorithm.is_none() and batch.seq_lens_cpu.max()",
        "not batch.spec_algorithm.is_some() and batch.seq_lens_cpu.max()",
        "batch.global_forward_mode == ForwardMode.IDLE",
    ],
)
def test_an_expression_that_does_not(expression: str) -> None:
    assert rules(f"return {expression}") == []


@pytest.mark.parametrize("name", ["len", "max", "sorted", "int", "zip", "next", "range", "tuple", "abs"])
def test_a_builtin_function_that_takes_no_none(name: str) -> None:
    assert rules(f"return {name}(batch.seq_lens_cpu)") == ["PK106"]


@pytest.mark.parametrize(
    "body",
    [
        # A name.
        "lens = batch.seq_lens_cpu\nlens.max()  # finds PK101",
        "lens: int = batch.seq_lens_cpu\nlens.max()  # finds PK101",
        "lens: int\nlens = batch.seq_lens_cpu\nlens.max()  # finds PK101",
        "first = second = batch.seq_lens_cpu\nsecond.max()  # finds PK101",
        "first, second = 1, batch.seq_lens_cpu\nfirst.max()\nsecond.max()  # finds PK101",
        "[first, second] = batch.seq_lens_cpu, 1\nsecond.max()\nfirst.max()  # finds PK101",
        "first, second = batch.seq_lens_cpu  # finds PK103",
        "first, *rest = batch.seq_lens_cpu, 1\nrest.append(1)",
        "rest = batch.seq_lens_cpu\nfirst, *rest = table\nrest.append(1)",
        "first, second = table\nfirst.max()",
        "lens = batch.seq_lens_cpu\nlens = [1]\nlens.append(2)",
        "pair = (1, batch.seq_lens_cpu)\nfirst, second, third = pair\nsecond.max()",
        # An attribute.
        "batch.seq_lens_cpu = table\nbatch.seq_lens_cpu.max()",
        "other.seq_lens_cpu = batch.seq_lens_cpu\nother.seq_lens_cpu.max()  # finds PK101",
        "batch.seq_lens_cpu.shape = 1  # finds PK101",
        "batch.seq_lens_cpu[0] = 1  # finds PK102",
        "table[0] = batch.seq_lens_cpu",
        "table[:] = batch.seq_lens_cpu  # finds PK109",
        "setattr(batch, 'seq_lens_cpu', table)\nbatch.seq_lens_cpu.max()",
        "setattr(batch, flag, table)\nbatch.seq_lens_cpu.max()  # finds PK101",
        "other = copy.copy(batch)\nif batch.seq_lens_cpu is None:\n    return\nother.seq_lens_cpu.max()",
        "batch = unknown()\nbatch.seq_lens_cpu.max()  # finds PK101",
        "batch.seq_lens_cpu = table\nbatch = other\nbatch.seq_lens_cpu.max()",
        # An augmented assignment.
        "batch.seq_lens_sum += 1  # finds PK104",
        "flag += batch.seq_lens_sum  # finds PK104",
        "lens = []\nlens += [1]\nif isinstance(lens, list):\n    return\nbatch.seq_lens_cpu.max()",
        "batch.seq_lens_sum += 1  # finds PK104\nbatch.seq_lens_sum += 1",
        # A branch.
        "if flag:\n    lens = batch.seq_lens_cpu\nelse:\n    lens = table\nlens.max()  # finds PK101",
        "if batch.seq_lens_cpu is None:\n    return\nbatch.seq_lens_cpu.max()",
        "if batch.seq_lens_cpu is not None:\n    return\nbatch.seq_lens_cpu.max()  # finds PK101",
        "if batch.seq_lens_cpu is None:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "if not batch.seq_lens_cpu:\n    return\nbatch.seq_lens_cpu.max()",
        "if batch.seq_lens_cpu and batch.seq_lens_sum:\n    batch.seq_lens_sum + batch.seq_lens_cpu[0]",
        "if batch.seq_lens_cpu or batch.seq_lens_sum:\n    return\nbatch.seq_lens_sum + 1  # finds PK104",
        "if flag or batch.seq_lens_cpu is None:\n    return\nbatch.seq_lens_cpu.max()",
        "if flag and batch.seq_lens_cpu is None:\n    return\nbatch.seq_lens_cpu.max()  # finds PK101",
        "if None in (batch.seq_lens_cpu, batch.seq_lens_sum):\n    return\nbatch.seq_lens_sum + 1",
        "if None not in [batch.seq_lens_cpu, flag]:\n    batch.seq_lens_cpu.max()",
        "if None in (flag, batch.seq_lens_cpu):\n    batch.seq_lens_cpu.max()  # finds PK101",
        "if None in batch.seq_lens_cpu:\n    pass",
        "if bool(batch.seq_lens_cpu):\n    batch.seq_lens_cpu.max()",
        "if isinstance(batch.seq_lens_cpu, list):\n    return\nbatch.seq_lens_cpu.max()  # finds PK101",
        "if all(x is not None for x in (batch.seq_lens_cpu, 1)):\n    batch.seq_lens_cpu.max()",
        "if any(x is None for x in (batch.seq_lens_cpu, 1)):\n    return\nbatch.seq_lens_cpu.max()",
        "if any(x is not None for x in (batch.seq_lens_cpu, 1)):\n"
        "    batch.seq_lens_cpu.max()  # finds PK101",
        "if all(x is None for x in [batch.seq_lens_cpu]):\n    return\n"
        "batch.seq_lens_cpu.max()  # finds PK101",
        "if all(x is not None for x in [batch.seq_lens_cpu] if x):\n"
        "    batch.seq_lens_cpu.max()  # finds PK101",
        "if all(x > 0 for x in (batch.seq_lens_sum, 1)):  # finds PK105\n    pass",
        "if all(table):\n    batch.seq_lens_cpu.max()  # finds PK101",
        "if False:\n    batch.seq_lens_cpu.max()",
        "if not False:\n    return\nbatch.seq_lens_cpu.max()",
        "if TYPE_CHECKING:\n    batch.seq_lens_cpu.max()",
        "if None:\n    batch.seq_lens_cpu.max()",
        "if 0 == None:\n    batch.seq_lens_cpu.max()",
        # A condition that is kept.
        "there = batch.seq_lens_cpu is not None\nif there:\n    batch.seq_lens_cpu.max()",
        "there = batch.seq_lens_cpu is not None\nif not there:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "there = not (batch.seq_lens_cpu is None)\nif there and flag:\n    batch.seq_lens_cpu.max()",
        "there = flag and batch.seq_lens_cpu is not None\nif there:\n    batch.seq_lens_cpu.max()",
        "there = flag or batch.seq_lens_cpu is not None\nif there:\n"
        "    batch.seq_lens_cpu.max()  # finds PK101",
        "gone = flag or batch.seq_lens_cpu is None\nif not gone:\n    batch.seq_lens_cpu.max()",
        "there = bool(flag)\nif there:\n    batch.seq_lens_cpu.max()  # finds PK101",
        # A loop.
        "for each in batch.seq_lens_cpu:  # finds PK103\n    pass",
        "for each in (batch.seq_lens_cpu, 1):\n    each.max()  # finds PK101",
        "for each in table:\n    if batch.seq_lens_cpu is None:\n        break\n    batch.seq_lens_cpu.max()",
        "for each in table:\n    if batch.seq_lens_cpu is None:\n        continue\n"
        "    batch.seq_lens_cpu.max()",
        "for each in table:\n    if batch.seq_lens_cpu is not None:\n        break\nelse:\n"
        "    return\nbatch.seq_lens_cpu.max()",
        "for each in table:\n    pass\nelse:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "for each in table:\n    lens = table\nelse:\n    lens = batch.seq_lens_cpu\n"
        "lens.max()  # finds PK101",
        "lens = table\nfor each in table:\n    lens.max()  # finds PK101\n    lens = batch.seq_lens_cpu",
        "lens = batch.seq_lens_cpu\nfor each in table:\n    lens = table\nlens.max()  # finds PK101",
        "lens = table\nfor each in table:\n    lens = batch.seq_lens_cpu\n    break\n"
        "lens.max()  # finds PK101",
        "lens = table\nfor each in table:\n    if flag:\n        lens = batch.seq_lens_cpu\n"
        "        continue\nlens.max()  # finds PK101",
        "one = two = three = table\nfor each in table:\n    one.max()  # finds PK101\n"
        "    one, two = two, batch.seq_lens_cpu",
        "while batch.seq_lens_cpu is None:\n    wait()\nbatch.seq_lens_cpu.max()",
        "while batch.seq_lens_cpu.max():  # finds PK101\n    pass",
        "while batch.seq_lens_cpu is not None:\n    batch.seq_lens_cpu.max()\n"
        "batch.seq_lens_cpu.max()  # finds PK101",
        "while flag:\n    pass\nelse:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "while True:\n    if flag:\n        break\nbatch.seq_lens_cpu.max()  # finds PK101",
        "while True:\n    pass\nbatch.seq_lens_cpu.max()",
        "for each in table:\n    return\nbatch.seq_lens_cpu.max()  # finds PK101",
        # A statement with blocks.
        "with batch.seq_lens_cpu.lock():  # finds PK101\n    pass",
        "with flag:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "with unknown(batch.seq_lens_cpu) as lens:\n    lens.max()",
        "with batch.seq_lens_cpu as lens:\n    lens.max()  # finds PK101",
        "try:\n    batch.seq_lens_cpu.max()  # finds PK101\nexcept TypeError:\n    pass",
        "try:\n    unknown()\nexcept TypeError:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "try:\n    lens = table\nexcept TypeError:\n    lens = batch.seq_lens_cpu\nlens.max()  # finds PK101",
        "try:\n    return\nexcept TypeError:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "try:\n    unknown()\nexcept TypeError:\n    return\nelse:\n"
        "    batch.seq_lens_cpu.max()  # finds PK101",
        "try:\n    unknown()\nfinally:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "try:\n    return\nfinally:\n    batch.seq_lens_cpu.max()  # finds PK101",
        "try:\n    return\nexcept TypeError:\n    raise\nbatch.seq_lens_cpu.max()",
        "try:\n    batch.seq_lens_cpu = table\nexcept TypeError:\n    return\nbatch.seq_lens_cpu.max()",
        "lens = table\ntry:\n    lens = batch.seq_lens_cpu\nexcept TypeError:\n    lens.max()  # finds PK101",
        "lens = batch.seq_lens_cpu\ntry:\n    lens = table\nexcept TypeError:\n    lens.max()  # finds PK101",
        "match flag:\n    case 1:\n        batch.seq_lens_cpu.max()  # finds PK101",
        "match batch.seq_lens_cpu.max():  # finds PK101\n    case 1:\n        pass",
        "match flag:\n    case 1:\n        lens = batch.seq_lens_cpu\n    case _:\n"
        "        lens = table\nlens.max()  # finds PK101",
        "match flag:\n    case 1:\n        return\nbatch.seq_lens_cpu.max()  # finds PK101",
        # A definition.
        "def inner():\n    batch.seq_lens_cpu.max()  # finds PK101\ninner.max()",
        "def inner(batch):\n    batch.max()",
        "def inner(one, /, two, *, three):\n    one.max(), two.max(), three.max()",
        "def inner():\n    return batch.seq_lens_cpu\nreturn inner",
        "async def inner():\n    await batch.seq_lens_cpu.max()  # finds PK101",
        "for each in table:\n    def inner():\n        return batch.seq_lens_cpu.max()  # finds PK101",
        "class Inner:\n    lens = batch.seq_lens_cpu.max()",
        # What leaves.
        "return\nbatch.seq_lens_cpu.max()",
        "raise\nbatch.seq_lens_cpu.max()",
        "raise ValueError(batch.seq_lens_cpu.max())  # finds PK101",
        "del batch.seq_lens_cpu\nbatch.seq_lens_cpu.max()  # finds PK101",
        # An assertion.
        "assert batch.seq_lens_cpu is not None  # finds PK108\nbatch.seq_lens_cpu.max()",
        "assert batch.seq_lens_cpu  # finds PK108",
        "assert flag and batch.seq_lens_cpu  # finds PK108",
        "assert flag or batch.seq_lens_cpu\nbatch.seq_lens_cpu.max()  # finds PK101",
        "assert isinstance(batch.seq_lens_cpu, list)  # finds PK108",
        "assert batch.seq_lens_cpu is None\nbatch.seq_lens_cpu.max()  # finds PK101",
        "assert batch.seq_lens_cpu.max() > 0  # finds PK101\nbatch.seq_lens_cpu.max()",
        "assert not batch.seq_lens_cpu\nbatch.seq_lens_sum + 1  # finds PK104",
        "assert 1 is not batch.seq_lens_cpu",
        "assert None is not flag\nbatch.seq_lens_sum + 1  # finds PK104",
        "assert isinstance()\nbatch.seq_lens_sum + 1  # finds PK104",
        # What failed once is there afterwards.
        "batch.seq_lens_cpu.max()  # finds PK101\nbatch.seq_lens_cpu.max()",
        "lens = batch.seq_lens_cpu\nbatch.seq_lens_cpu.max()  # finds PK101\nlens.max()",
        "batch.seq_lens_sum > 1  # finds PK105\nbatch.seq_lens_sum + 1  # finds PK104",
    ],
)
def test_a_body_with_its_failures(body: str) -> None:
    source = f"def plan(batch, other, flag, table):\n{textwrap.indent(body, '    ')}\n"
    found = {(finding.line, finding.rule) for finding in audit(program(source)).findings}
    assert found == {(mark.line, mark.rule) for mark in expected(source)}


def test_an_asynchronous_function_is_read_like_another() -> None:
    source = """\
async def plan(batch, table):
    async with table as lens:
        lens.max()
    async for each in batch.seq_lens_cpu:  # finds PK103
        await each
    async for each in (batch.seq_lens_cpu, 1):
        pass
    async with table:
        await batch.seq_lens_sum + 1  # finds PK104
"""
    found = {(finding.line, finding.rule) for finding in audit(program(source)).findings}
    assert found == {(mark.line, mark.rule) for mark in expected(source)}


def test_a_branch_that_no_value_reaches_gives_no_finding() -> None:
    inner = "lambda b: (1 if a is not None else 2) if b is None else 3"
    assert rules(f"batch.seq_lens_cpu\nreturn lambda a: ({inner}) if a is not None else 0") == []
