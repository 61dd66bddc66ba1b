"""`met circuit lint` on rule files that are broken on purpose: each kind of fault is found, named, and ends with 1."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from circuit.load.evidence import Evidence, Rung, evidence_text
from circuit.lower.proven import rule_hash
from cli.main import status
from tests.exec.test_prove import checkout as checkout
from tests.lower.library import class_rules, own_library

Edit = Callable[[str], str]


def in_rule(id: str, old: str, new: str) -> Edit:
    """Another text in one rule."""

    def edit(text: str) -> str:
        head, start, rest = text.partition(f'id = "{id}"\n')
        assert old in rest, id
        return head + start + rest.replace(old, new, 1)

    return edit


def again(id: str, new: str, priority: int) -> Edit:
    """The rule once more, under another id and priority."""

    def edit(text: str) -> str:
        rule = text.partition(f'[[rule]]\nid = "{id}"\n')[2].partition("\n[[rule]]\n")[0]
        head, _, rest = rule.partition("priority = ")
        return f'{text}\n[[rule]]\nid = "{new}"\n{head}priority = {priority}\n{rest.partition(chr(10))[2]}\n'

    return edit


def found(checkout: Path, capsys: pytest.CaptureFixture[str], edit: Edit) -> list[str]:
    """What lint says of the edited rules."""
    path = checkout / "kernels/cpu/common/FUSIONS.toml"
    path.write_text(edit(path.read_text("utf-8")), "utf-8")
    assert status(["circuit", "lint", "--json"]) == 1
    return [finding["message"] for finding in json.loads(capsys.readouterr().out)["findings"]]


@pytest.mark.parametrize(
    ("edit", "messages"),
    [
        (
            in_rule("linear_kv", "priority = 180", "priority = 200"),
            ["rules `linear_kv` and `linear_qkv` can want the same node, both with priority 200"],
        ),
        (
            in_rule("glu", "priority = 10", "priority = 150"),
            [
                "rule `glu+linear_down` is never used: `glu` takes its nodes first",
                "rule `glu+linear_down+residual_add` is never used: `glu` takes its nodes first",
                "rule `glu+linear_down` does not fire on its example; glu, linear did",
                "rule `glu+linear_down+residual_add` does not fire on its example; glu, linear+residual_add did",
            ],
        ),
        (
            again("glu+linear_down", "again", 95),
            [
                "rule `again` is never used: `glu+linear_down` takes its nodes first",
                "rule `again` does not fire on its example; glu+linear_down did",
            ],
        ),
        (
            in_rule("glu+linear_down", "rows = [1, 65536]", "rows = [600, 1000]"),
            ["rule `glu+linear_down` is unreachable: class cpu plans decode 1-64, prefill 1-512"],
        ),
        (
            in_rule("glu+linear_down", "modes =", 'when = { parity = ["free"] }\nmodes ='),
            ["rule `glu+linear_down` is unreachable: policy parity = free is not implemented"],
        ),
        (
            in_rule("linear_bias", 'weight = "any"', 'weight = ["f32", "bf16", "q4_1"]'),
            ["no rule computes linear with bias = true with weight = q8_0 in decode of rows 1-64"],
        ),
        (
            in_rule("attention", 'modes = ["decode", "prefill"]', 'modes = ["prefill"]'),
            ["no rule computes attention in decode of rows 1-64"],
        ),
        (
            in_rule("embed", 'example = "x = embed(tokens:i32) weight=bf16"', 'example = "y = residual_add(x, d)"'),
            ["rule `embed` does not fire on its example; residual_add did"],
        ),
    ],
)
def test_a_broken_rule_file_is_found(
    checkout: Path, capsys: pytest.CaptureFixture[str], edit: Edit, messages: list[str]
) -> None:
    said = found(checkout, capsys, edit)
    for message in messages:
        assert message in said


def test_a_default_that_loses_is_found_and_names_its_evidence(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = next(rule for rule in class_rules(own_library()) if rule.id == "linear_qkv")
    record = Evidence(
        rule=rule.id,
        hash=rule_hash(rule),
        machine="A processor",
        threads=2,
        model="m",
        under=(),
        date="2026-11-29",
        on="a",
        off="b",
        energy="RAPL",
        rungs=(Rung(rows=2, off_ms=1.0, ratio=1.25, control=(0.99, 1.01)),),
        file="",
        line=None,
    )
    path = checkout / "kernels/cpu/common/EVIDENCE.toml"
    path.write_text(evidence_text((record,)), "utf-8")
    messages = found(checkout, capsys, lambda text: text)
    assert messages == [
        "rule `linear_qkv` is a default and loses on A processor: 2 rows: time x 1.250, control up to 1.010"
    ]
    rules = checkout / "kernels/cpu/common/FUSIONS.toml"
    rules.write_text(in_rule("linear_qkv", "modes =", "opt_in = true\nmodes =")(rules.read_text("utf-8")), "utf-8")
    assert status(["circuit", "lint"]) == 0
    assert "`linear_qkv`" not in capsys.readouterr().out
