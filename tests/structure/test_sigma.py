"""Sigma stays closed and small, and its list is complete."""

import importlib
from types import ModuleType

from circuit.sigma import OPS, SIGMA
from circuit.sigma.op import OpKind
from tests.structure.tree import python_files

SPECIAL = ("linear", "act_quant")
"""The two ops with a role or a format; with 30 plain ones a set of ops fits 32 bits."""


def ops_in(module: ModuleType) -> list[OpKind]:
    return [value for value in vars(module).values() if isinstance(value, OpKind)]


def test_sigma_has_at_most_30_plain_ops() -> None:
    assert len([op for op in SIGMA if op.name not in SPECIAL]) <= 30


def test_every_op_has_a_name_of_its_own() -> None:
    assert len(OPS) == len(SIGMA)


def test_every_op_that_a_file_defines_is_in_the_list() -> None:
    names = [path.removesuffix(".py").replace("/", ".") for path in python_files("circuit/sigma")]
    defined = [op for name in names if not name.endswith("__init__") for op in ops_in(importlib.import_module(name))]
    assert {op.name for op in defined} == set(OPS)


def test_an_op_outside_the_list_would_be_found() -> None:
    module = ModuleType("extra")
    module.__dict__["EXTRA"] = OpKind(name="extra", n_inputs=1, params=())
    assert [op.name for op in ops_in(module)] == ["extra"]


def test_every_op_says_exactly_one_of_what_it_computes_and_what_it_writes() -> None:
    assert [op.name for op in SIGMA if (op.define is None) == (op.writes is None)] == []
