"""What a plan's certificate claims is named after a test, and that test exists."""

import ast

import pytest

from circuit.plan.certificate import certificate
from circuit.plan.ir import Axis
from tests.structure.tree import ROOT


def missing(axes: tuple[Axis, ...]) -> list[str]:
    """The axes that claim to hold without naming a test that is there, as file::test."""
    return [f"{axis.axis}: {axis.evidence}" for axis in axes if axis.holds == "yes" and not _exists(axis.evidence)]


def _exists(evidence: str) -> bool:
    path, _, name = evidence.partition("::")
    if not (ROOT / path).is_file():
        return False
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in tree.body)


def test_every_axis_that_holds_names_a_test_that_exists() -> None:
    axes = certificate(())
    assert any(axis.holds == "yes" for axis in axes)
    assert missing(axes) == []


@pytest.mark.parametrize(
    "evidence", ["tests/none.py::test_a", "tests/structure/test_certificate.py::test_none", "seen"]
)
def test_a_claim_without_its_test_is_found(evidence: str) -> None:
    assert missing((Axis(axis="threads", holds="yes", evidence=evidence),)) == [f"threads: {evidence}"]


def test_every_axis_says_one_of_three_things() -> None:
    both = (*certificate(()), *certificate(("other",)))
    assert {axis.holds for axis in both} <= {"yes", "no", "not checked"}
