"""circuit is a function of its inputs: it can import nothing that reads a file, clock, environment or random source."""

import ast

import pytest

from tests.structure.tree import imports, python_files

ALLOWED = frozenset(
    "circuit collections contextlib decimal difflib enum fractions functools hashlib heapq itertools json "
    "math msgspec operator re struct textwrap tomli typing".split()
)
PROBLEMS = "circuit/load/edge_problems.py"
"""Names what is wrong with a file; nothing else waits for pydantic."""
FORBIDDEN_CALLS = frozenset(("open", "print", "input", "exec", "eval", "__import__", "breakpoint"))


def violations(sources: dict[str, str]) -> list[str]:
    """One line for each import outside the allow-list, and for each call of a builtin that does more than compute."""
    found = []
    for path, text in sources.items():
        allowed = ALLOWED | {"pydantic"} if path == PROBLEMS else ALLOWED
        found += [
            f"{path}:{line}: imports {name}" for line, name in imports(text) if name.partition(".")[0] not in allowed
        ]
        found += [f"{path}:{line}: calls {name}" for line, name in _calls(text) if name in FORBIDDEN_CALLS]
    return found


def test_circuit_imports_only_what_computes() -> None:
    assert violations(python_files("circuit")) == []


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("circuit/plan/a.py", "import os", "imports os"),
        ("circuit/plan/a.py", "from pathlib import Path", "imports pathlib.Path"),
        ("circuit/plan/a.py", "def f():\n    import numpy", "imports numpy"),
        ("circuit/plan/a.py", "import pydantic", "imports pydantic"),
        ("circuit/plan/a.py", "text = open('a').read()", "calls open"),
    ],
)
def test_an_impure_file_is_found(path: str, text: str, problem: str) -> None:
    (found,) = violations({path: text})
    assert found.endswith(problem)


def test_pydantic_is_allowed_where_it_names_what_is_wrong_with_a_file() -> None:
    assert violations({PROBLEMS: "import pydantic"}) == []
    assert violations({"circuit/load/a.py": "import pydantic"}) == ["circuit/load/a.py:1: imports pydantic"]


def _calls(text: str) -> list[tuple[int, str]]:
    return [
        (node.lineno, node.func.id)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
