"""Every key of a quantization config that the ledger says is used changes the digest or is refused; every key that it
says is ignored changes nothing. All methods, in `quantization_config` and hf_quant_config.json.
"""

import json
from collections.abc import Iterator
from functools import cache

import pytest

from circuit.errors import LoadError
from circuit.front.blocks import blocks
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.inputs import HfTexts
from circuit.load.ledger import Ledger
from circuit.load.quantization_keys import Rule
from circuit.load.source import Plain, path_text
from circuit.plan.digest import digest_of, instance_parts
from circuit.text import Source
from circuit.tir.instantiate import instantiate
from circuit.tir.quantize import as_declared
from tests.cases.texts import case, library
from tests.mutation.quantized import (
    CONFIG,
    OUR_NAME,
    OWN,
    Path,
    Quantized,
    changed,
    keys_in,
    other_values,
    quantized,
)

CASES = quantized()
IGNORED_VALUES: tuple[Plain, ...] = (3, "x", [1, 2], {"a": 1})
OTHER_VALUES: tuple[Plain, ...] = (7, "other", [1])
SIZES = case(
    "llama", hidden_size=128, intermediate_size=256, vocab_size=512, tie_word_embeddings=False, head_dim=32
)  # so that every group fits

ONLY_REFUSED: dict[str, str] = {
    "quant_method": "another method has other keys",
    "format": "the format must fit the type of the codes, and that of the group the whole",
    "quant_algo": "FP8 is the only one",
    "num_bits": "it must fit the format",
    "type": "it must fit the format",
    "q_group_size": "it must be what group_size is",
    "version": "gemm is the only one",
}
"""Keys without another legal value that means something else, and why."""

UNCHANGED: dict[tuple[str, str], str] = {("version", '"GEMM"'): "another spelling of gemm"}
"""Legal values that mean the same as the case's own, and why."""


def read(declared: Quantized) -> tuple[str, Ledger]:
    """The digest of the instance as it is declared, and the ledger; LoadError where it is refused."""
    whole = SIZES if CONFIG not in declared.files else SIZES | {"quantization_config": declared.files[CONFIG]}
    own = declared.files.get(OWN)
    facts, ledger = map_config(
        HfTexts(
            config=Source(path=CONFIG, text=json.dumps(whole, indent=1)),
            quantization=None if own is None else Source(path=OWN, text=json.dumps(own, indent=1)),
        ),
        library(),
    )
    tir = as_declared(instantiate(blocks(load_circuit(library(), facts.arch), facts)), facts.quantization)
    return digest_of(instance_parts(tir)), ledger


def digest(declared: Quantized) -> str | None:
    """The digest, or None where the declaration is refused."""
    try:
        return read(declared)[0]
    except LoadError:
        return None


@cache
def outcomes() -> tuple[tuple[str, str, str, str], ...]:
    """(case, key, other value, what came of it: changed, refused, unchanged) for every key that is claimed as used."""
    found = []
    for each in CASES:
        before, _ = read(each)
        for path, rule, value in keys_in(each):
            for other in other_values(path, value) if rule.kind == "use" else ():
                after = digest(changed(each, path, other))
                came = "refused" if after is None else "unchanged" if after == before else "changed"
                found.append((each.name, path[-1], json.dumps(other), came))
    return tuple(found)


def rules(kind: str) -> set[tuple[int, str]]:
    """Every key of every table that has this kind, by the table."""
    tables = {id(table): table for each in CASES for table in each.tables.values()}
    return {(at, name) for at, table in tables.items() for name, rule in table.items() if rule.kind == kind}


def test_every_key_that_is_used_is_in_some_case() -> None:
    there = {
        (id(each.tables[path[:-1]]), OUR_NAME.get(path[-1], path[-1])) for each in CASES for path, _, _ in keys_in(each)
    }
    used = {(at, OUR_NAME.get(name, name)) for at, name in rules("use")}
    assert used - there == set()
    assert len(used) > 20


def test_another_legal_value_of_every_used_key_changes_the_digest() -> None:
    keys = {key for _, key, _, _ in outcomes()}
    assert keys - {key for _, key, _, came in outcomes() if came == "changed"} == set(ONLY_REFUSED)


def test_no_other_value_of_a_used_key_is_accepted_without_effect() -> None:
    same = {(key, value) for _, key, value, came in outcomes() if came == "unchanged"}
    assert same == set(UNCHANGED)


def test_the_ledger_says_at_which_nodes_every_used_key_is_used() -> None:
    """The nodes are those whose weights another value can change."""
    for each in CASES:
        _, ledger = read(each)
        entries = {entry.key: entry for entry in ledger.entries if entry.file == each.file and entry.line is not None}
        prefix = ("quantization_config",) if each.file == CONFIG else ()
        for path, rule, _ in keys_in(each):
            entry = entries[path_text((*prefix, *path))]
            assert entry.kind == {"use": "param"}.get(rule.kind, rule.kind), (each.name, path)
            assert bool(entry.nodes) == (rule.kind == "use"), (each.name, path)


def legal(each: Quantized) -> Iterator[tuple[Path, str, Rule]]:
    for at, table in each.tables.items():
        for name, rule in table.items():
            yield (*at, name), name, rule


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_ignored_keys_change_nothing_whatever_their_value(each: Quantized) -> None:
    before, _ = read(each)
    ignored = [path for path, _, rule in legal(each) if rule.kind == "ignore"]
    assert ignored
    for path in ignored:
        for value in (*IGNORED_VALUES, None):
            assert digest(changed(each, path, value)) == before, (path, value)


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_required_values_are_accepted_without_effect_and_others_refused(each: Quantized) -> None:
    before, _ = read(each)
    for path, _, rule in legal(each):
        if rule.kind != "require":
            continue
        for value in rule.values:
            assert digest(changed(each, path, value)) == before, (path, value)
        flipped: list[Plain] = [not value for value in rule.values if isinstance(value, bool)]
        for value in (*OTHER_VALUES, *flipped):
            assert digest(changed(each, path, value)) is None, (path, value)


@pytest.mark.parametrize("each", CASES, ids=lambda each: each.name)
def test_unknown_keys_are_refused_in_every_object(each: Quantized) -> None:
    for at in each.tables:
        assert digest(changed(each, (*at, "spin"), 1)) is None


def test_a_used_key_that_changed_nothing_would_be_found() -> None:
    """The comparison itself: equal declarations have equal digests."""
    assert digest(CASES[0]) == digest(CASES[0]) is not None
    assert digest(CASES[0]) != digest(CASES[1])
