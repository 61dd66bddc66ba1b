"""The project's own files as texts, for the tests of this folder."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "adr", "bench", "circuit", "circuit_exec", "cli", "kernels", "recipes", "tests")
PACKAGES = ("circuit", "circuit_exec", "cli")


def files(*folders: str) -> dict[str, str]:
    """Path from the root -> text, sorted, of every text below the folders: no Python cache, no packed fixture."""
    found = sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".gz", ".npz")
    )
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in found}


def python_files(*folders: str) -> dict[str, str]:
    """The Python files of the folders."""
    return {path: text for path, text in files(*folders).items() if path.endswith(".py")}


def top_files() -> dict[str, str]:
    """The files of the root folder, by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.iterdir()) if path.is_file()}


def imports(text: str) -> Iterator[tuple[int, str]]:
    """Line and full name of every import of the text, at the top or inside a function.

    `from circuit.uop import node` gives circuit.uop.node: a module or a name in one, it is the same here.
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in names)
            case ast.ImportFrom(level=level):
                assert level == 0, f"line {node.lineno}: a relative import"
