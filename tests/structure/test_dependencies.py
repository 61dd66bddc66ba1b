"""What the packages import is declared, so that an installed wheel starts, and nothing else is."""

import sys
import tomllib

from tests.structure.tree import PACKAGES, ROOT, imports, python_files

MODULES = {"cupy": "cupy-cuda13x", "prometheus_client": "prometheus-client", "pydantic_core": "pydantic"}
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


def unused(sources: dict[str, str], required: set[str]) -> set[str]:
    """The required distributions that nothing imports."""
    tops = {name.partition(".")[0] for text in sources.values() for _, name in imports(text)}
    return required - {MODULES.get(top, top) for top in tops}


def declared_names(*extras: str) -> set[str]:
    """What an installed wheel has, with these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = [project["optional-dependencies"][extra] for extra in extras]
    lines = [*project["dependencies"], *(line for extra in optional for line in extra)]
    return {line.partition(">")[0].partition("=")[0] for line in lines}


def test_every_import_of_the_packages_is_a_declared_dependency() -> None:
    assert undeclared(python_files(*PACKAGES), declared_names("cuda", "zig")) == []


def test_every_declared_dependency_is_imported() -> None:
    assert unused(python_files(*PACKAGES), declared_names()) == set()


def test_an_undeclared_import_is_found() -> None:
    text = "import json\nimport numpy\ndef f():\n    import torch\n"
    assert undeclared({"cli/a.py": text}, declared_names("cuda", "zig")) == ["cli/a.py:4: imports torch"]


def test_a_dependency_that_nothing_imports_is_found() -> None:
    assert unused({"cli/a.py": "import numpy.typing\nfrom rich import print\n"}, {"numpy", "rich", "torch"}) == {
        "torch"
    }
