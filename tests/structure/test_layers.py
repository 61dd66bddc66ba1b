"""Imports go one way: cli -> circuit_exec -> circuit, and inside circuit from a later stage to an earlier one."""

import pytest

from tests.structure.tree import PACKAGES, files, imports, python_files

ORDER = (
    "errors text formats uop sigma load front tir lower plan compiled report render bake emit "
    "pipeline reports comparisons"
).split()  # a new stage gets its place here first
MAY_IMPORT = {"circuit": ("circuit",), "circuit_exec": ("circuit", "circuit_exec"), "cli": PACKAGES}


def violations(sources: dict[str, str]) -> list[str]:
    """One line for each import that goes against the order."""
    found = []
    for path, text in sources.items():
        package, inside = path.removesuffix(".py").split("/")[:2]
        for line, name in imports(text):
            parts = name.split(".")
            if parts[0] == "tests":
                found.append(f"{path}:{line}: imports {name}, which is a test")
            elif parts[0] in PACKAGES and parts[0] not in MAY_IMPORT[package]:
                found.append(f"{path}:{line}: {package} imports {name}")
            elif package == "circuit" == parts[0] and parts[1] in ORDER and ORDER.index(parts[1]) > ORDER.index(inside):
                found.append(f"{path}:{line}: {inside} imports {name}, a later stage")
    return found


def test_every_import_goes_from_a_later_stage_to_an_earlier_one() -> None:
    assert violations(python_files(*PACKAGES)) == []


def test_every_folder_and_file_of_circuit_has_its_place_in_the_order() -> None:
    inside = {path.split("/")[1].removesuffix(".py") for path in files("circuit")} - {"__init__", "py.typed"}
    assert inside - set(ORDER) == set()


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("circuit/tir/a.py", "from circuit.lower import ir", "tir imports circuit.lower.ir, a later stage"),
        ("circuit/load/a.py", "def f():\n    import circuit.pipeline", "load imports circuit.pipeline, a later stage"),
        ("circuit/text.py", "from circuit.uop.node import UOp", "text imports circuit.uop.node.UOp, a later stage"),
        ("circuit/plan/a.py", "import circuit_exec.build", "circuit imports circuit_exec.build"),
        ("circuit_exec/a.py", "from cli.main import app", "circuit_exec imports cli.main.app"),
        ("cli/a.py", "from tests.models import tiny_config", "imports tests.models.tiny_config, which is a test"),
    ],
)
def test_an_import_against_the_order_is_found(path: str, text: str, problem: str) -> None:
    (found,) = violations({path: text})
    assert found.endswith(problem)


def test_imports_along_the_order_are_allowed() -> None:
    text = "import circuit.uop.node\nfrom circuit.lower.ir import Group\nfrom circuit.plan import ir\nimport json\n"
    assert violations({"circuit/plan/a.py": text, "cli/a.py": text, "circuit_exec/a.py": text}) == []
