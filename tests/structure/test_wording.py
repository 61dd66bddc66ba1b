"""Every message to a user, and every fix, stands in a test: what no test says may never have run."""

import ast
from collections.abc import Iterator

from tests.structure.tree import files, python_files

COVERED = (
    "circuit/front/",
    "circuit/tir/",
    "circuit/load/audit_policy.py",
    "circuit/load/circuit",
    "circuit/load/classify.py",
    "circuit/load/config",
    "circuit/load/devices.py",
    "circuit/load/evidence.py",
    "circuit/load/families.py",
    "circuit/load/hardware.py",
    "circuit/load/instructions.py",
    "circuit/load/json_text.py",
    "circuit/load/plan_file.py",
    "circuit/load/policy.py",
    "circuit/load/proofs.py",
    "circuit/load/quantization",
    "circuit/load/recipe.py",
    "circuit/load/resolve.py",
    "circuit/load/rules.py",
    "circuit/load/settings.py",
    "circuit/load/source.py",
    "circuit/load/toml_text.py",
    "circuit/lower/",
    "circuit/pipeline.py",
    "circuit/plan/",
    "circuit/report/",
    "circuit/text.py",
    "circuit_exec/ab.py",
    "circuit_exec/bake.py",
    "circuit_exec/baked_file.py",
    "circuit_exec/cache.py",
    "circuit_exec/checkpoint/",
    "circuit_exec/diff/",
    "circuit_exec/engine/",
    "circuit_exec/fetch.py",
    "circuit_exec/generate.py",
    "circuit_exec/library.py",
    "circuit_exec/model.py",
    "circuit_exec/prove/",
    "circuit_exec/recipe_run.py",
    "circuit_exec/server/",
    "circuit_exec/text/",
    "circuit_exec/trace/",
    "cli/circuits.py",
    "cli/diff",
    "cli/display.py",
    "cli/engine_options.py",
    "cli/environment.py",
    "cli/evidence.py",
    "cli/forms.py",
    "cli/lkb.py",
    "cli/logits.py",
    "cli/main.py",
    "cli/planner.py",
    "cli/prove.py",
    "cli/recipe",
    "cli/record.py",
    "cli/serve.py",
    "cli/target.py",
    "cli/tokens.py",
    "cli/trace.py",
    "cli/venn.py",
    "cli/whole_file.py",
)
"""Where this holds: how the paths begin."""
RAISERS = ("Problem", "Refusal", "ValueError", "problem", "problem_at", "refuse", "refused", "retry_later")
"""Functions that are given a message or a fix, with or without a first underscore."""
NAMES = ("message", "fix")
"""Variables that hold one."""
LEAST, COMPARED = 10, 24
"""The shortest piece between two values that counts, and how much of it must be in a test."""


def pieces(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every constant piece of a message or a fix of a source."""
    for node in ast.walk(ast.parse(text)):
        values: list[ast.expr] = []
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name.lstrip("_") in RAISERS:
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
            case ast.Assign(targets=[ast.Name(id=name)]) if name in NAMES:
                values = [node.value]
        for value in values:
            if isinstance(value, ast.Constant | ast.JoinedStr | ast.BinOp | ast.IfExp):
                yield from ((line, part) for line, part in strings(value) if len(part.strip()) >= LEAST)


def strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every string constant below a node."""
    for each in ast.walk(node):
        match each:
            case ast.Constant(value=str(text), lineno=line):
                yield line, text


def untested(sources: dict[str, str], tests: dict[str, str]) -> list[str]:
    """One line for each piece that no string of the tests has."""
    said = "\0".join(part for text in tests.values() for _, part in strings(ast.parse(text)))
    found = []
    for path, text in sources.items():
        found += [f"{path}:{n}: {piece}" for n, piece in pieces(text) if piece.strip()[:COMPARED] not in said]
    return list(dict.fromkeys(found))


def test_every_message_and_every_fix_stands_in_a_test() -> None:
    sources = {
        path: text for path, text in python_files("circuit", "circuit_exec", "cli").items() if path.startswith(COVERED)
    }
    tests = {path: text for path, text in files("tests").items() if path.endswith(".py")}
    assert all(any(path.startswith(place) for path in sources) for place in COVERED)
    assert untested(sources, tests) == []


def test_a_message_that_no_test_says_is_found() -> None:
    source = 'def f(x):\n    message = f"{x} is not what it must be"\n    _refuse(message, "write it in another way")\n'
    assert untested({"a.py": source}, {"t.py": 'assert "3 is not what it must be"'}) == [
        "a.py:3: write it in another way"
    ]
