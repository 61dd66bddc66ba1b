"""What the packages import is declared, so that an installed wheel starts."""

import sys
import tomllib

from tests.structure.tree import PACKAGES, ROOT, imports, python_files

MODULES = {"cupy": "cupy-cuda13x", "tomli_w": "tomli-w"}
"""Modules whose distribution has another name."""


def undeclared(sources: dict[str, str], declared: set[str]) -> list[str]:
    """One line for each import of a distribution that is not declared."""
    found = []
    for path, text in sources.items():
        for line, name in imports(text):
            top = name.partition(".")[0]
            known = top in PACKAGES or top in sys.stdlib_module_names
            if not known and MODULES.get(top, top) not in declared:
                found.append(f"{path}:{line}: imports {name}")
    return found


def declared_names() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [project["optional-dependencies"][extra] for extra in ("cuda", "zig")]
    lines = [*project["dependencies"], *(line for extra in optional for line in extra)]
    return {line.partition(">")[0].partition("=")[0] for line in lines}


def test_every_import_of_the_packages_is_a_declared_dependency() -> None:
    assert undeclared(python_files(*PACKAGES), declared_names()) == []


def test_an_undeclared_import_is_found() -> None:
    text = "import json\nimport numpy\ndef f():\n    import torch\n"
    assert undeclared({"cli/a.py": text}, declared_names()) == ["cli/a.py:4: imports torch"]
