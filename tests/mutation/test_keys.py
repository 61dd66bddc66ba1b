"""Every key that the ledger says is used changes the digest when its value changes, or the value is refused; every key
that it says is ignored changes nothing. All keys of every config map, in config.json and GGUF metadata.
"""

from functools import cache

import pytest

from circuit.compiled import Goal, PlanSet
from circuit.load.source import Plain
from circuit.pipeline import stages
from circuit.plan.digest import digest_of, instance_parts, run_part
from tests.cases.texts import MODEL_TYPES
from tests.lower.library import own_library
from tests.mutation.cases import GGUF_TYPES, Case, cases, changed
from tests.mutation.reading import (
    digest,
    keys_in,
    kind_of,
    map_of,
    read,
    specs,
    texts,
)
from tests.mutation.values import other_values

CASES = cases()
READERS = [(file, t) for t in MODEL_TYPES for file in ("config.json", "generation_config.json")]
READERS += [("gguf", t) for t in GGUF_TYPES]
USED = ("dim", "param", "run")
IGNORED_VALUES: tuple[Plain, ...] = (3, "x", [1, 2])
REFUSED_VALUES: tuple[Plain, ...] = (0, 1, False, "x", [1])
OTHER_VALUES: tuple[Plain, ...] = (7, "other", [])

ONLY_REFUSED: dict[tuple[str, str, str], str] = {
    ("config.json", "llama", "hidden_act"): "silu is the only activation; swish is another name of it",
    ("config.json", "mistral", "hidden_act"): "silu is the only activation; swish is another name of it",
    ("config.json", "qwen2", "hidden_act"): "silu is the only activation; swish is another name of it",
    ("config.json", "qwen3", "hidden_act"): "silu is the only activation; swish is another name of it",
    (
        "config.json",
        "llama",
        "layer_types",
    ): "all layers are full; another kind or number of them contradicts the class",
    ("gguf", "llama", "llama.rope.dimension_count"): "it must be the width of a head, which other keys give",
}
"""Keys (file, model type, key) without another legal value that means something else, and why."""

UNCHANGED: dict[tuple[str, str, str], str] = {
    ("qwen2 case", "rope.original_max_position_embeddings", "512"): (
        "the range of frequencies that are blended is rounded outwards to the same whole pairs"
    ),
} | {(case.name, "hidden_act", "swish"): "swish is another name of silu" for case in CASES if "gguf" not in case.files}
"""Legal values (case, key, value) that mean the same as the case's own, and why."""


def mine(file: str, model_type: str) -> list[Case]:
    """The cases of a model type that have the file."""
    return [case for case in CASES if case.model_type == model_type and file in case.files]


@cache
def outcomes(file: str, model_type: str) -> dict[str, list[tuple[str, str, str]]]:
    """For each key that a ledger claims as used: (case, other value, what came of it: changed, refused, unchanged)."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for case in mine(file, model_type):
        before = read(case)
        for path, name, value in keys_in(case, file):
            if kind_of(before.ledger, case, file, path) not in USED:
                continue
            spec = specs(file, model_type)[name]
            for other in other_values(map_of(file, model_type), spec, value):
                after = digest(changed(case, file, path, other))
                came = "refused" if after is None else "unchanged" if after == before.digest else "changed"
                shown = f"{len(other)} values" if isinstance(other, list) and len(other) > 9 else str(other)
                found.setdefault(name, []).append((case.name, shown, came))
    return found


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_every_key_of_the_map_that_gives_facts_is_claimed_in_some_case(file: str, model_type: str) -> None:
    giving = {name for name, spec in specs(file, model_type).items() if spec.facts and spec.refuse is None}
    assert giving
    assert giving - set(outcomes(file, model_type)) == set()


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_another_legal_value_of_every_claimed_key_changes_the_digest(file: str, model_type: str) -> None:
    without = {n for n, tried in outcomes(file, model_type).items() if "changed" not in {came for _, _, came in tried}}
    listed = {name for known_file, known_type, name in ONLY_REFUSED if (known_file, known_type) == (file, model_type)}
    assert without == listed


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_no_other_value_of_a_claimed_key_is_accepted_without_effect(file: str, model_type: str) -> None:
    tried = outcomes(file, model_type)
    same = {(case, name, value) for name, each in tried.items() for case, value, came in each if came == "unchanged"}
    listed = {key for key in UNCHANGED if key[0] in {case.name for case in mine(file, model_type)}}
    assert same - listed == set()


def test_every_value_that_is_listed_as_without_effect_has_none() -> None:
    same = {
        (case, name, value)
        for file, model_type in READERS
        for name, each in outcomes(file, model_type).items()
        for case, value, came in each
        if came == "unchanged"
    }
    assert set(UNCHANGED) - same == set()


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_ignored_keys_change_nothing_whatever_their_value(file: str, model_type: str) -> None:
    case = mine(file, model_type)[0]
    before = read(case)
    chooses = {"model_type", "general.architecture"}  # another value is another map
    for name, spec in specs(file, model_type).items():
        if spec.ignore is None or name in chooses or ("." in name and file != "gguf"):
            continue
        for value in IGNORED_VALUES:
            after = read(changed(case, file, (name.replace("*", "x"),), value))
            assert (after.digest, after.tir, after.run) == (before.digest, before.tir, before.run), (name, value)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_ignored_keys_of_an_object_change_nothing_whatever_their_value(model_type: str) -> None:
    case = next(case for case in CASES if case.name == f"{model_type} yarn")
    before = read(case)
    ignored = [name for name, spec in specs("config.json", model_type).items() if spec.ignore and "rope." in name]
    assert ignored
    for name in ignored:
        for value in (*IGNORED_VALUES, None):
            path = ("rope_parameters", name.removeprefix("rope."))
            assert read(changed(case, "config.json", path, value)).digest == before.digest, name


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_keys_that_the_ledger_ignores_in_a_case_change_nothing_there(file: str, model_type: str) -> None:
    """A key that counts only under another one, where it does not count."""
    for case in mine(file, model_type):
        before = read(case)
        for path, name, value in keys_in(case, file):
            spec = specs(file, model_type)[name]
            if spec.facts and kind_of(before.ledger, case, file, path) == "ignore":
                for other in other_values(map_of(file, model_type), spec, value):
                    assert digest(changed(case, file, path, other)) in (before.digest, None), (case.name, name, other)


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_required_values_are_accepted_without_effect_and_others_refused(file: str, model_type: str) -> None:
    case = mine(file, model_type)[0]
    before = digest(case)
    for name, spec in specs(file, model_type).items():
        legal: list[Plain] = [list(wanted) if isinstance(wanted, tuple) else wanted for wanted in spec.require]
        for value in legal:
            assert digest(changed(case, file, (name,), value)) == before, (name, value)
        flipped: list[Plain] = [not value for value in legal if isinstance(value, bool) and (not value) not in legal]
        for value in (*OTHER_VALUES, *flipped) if legal else ():
            assert digest(changed(case, file, (name,), value)) is None, (name, value)


@pytest.mark.parametrize(("file", "model_type"), READERS)
def test_refused_keys_are_refused_whatever_their_value(file: str, model_type: str) -> None:
    case = mine(file, model_type)[0]
    for name, spec in specs(file, model_type).items():
        if spec.refuse is not None:
            for value in REFUSED_VALUES:
                assert digest(changed(case, file, (name.replace("*", "x"),), value)) is None, (name, value)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.name.endswith((" tiny", " case"))], ids=lambda c: c.name
)
def test_the_parts_that_a_checkpoint_decides_are_in_the_digest_of_its_plan(case: Case) -> None:
    """What the other tests compare is what a plan's digest is made of."""
    found = read(case)
    (result,) = [
        result
        for name, result in stages(texts(case), own_library(), Goal(hardware_class="cpu", steps=(("decode", None),)))
        if name == "plan"
    ]
    assert isinstance(result, PlanSet)
    parts = dict(result.plans[0].parts)
    own = instance_parts(found.tir) | {"run": run_part(found.run)}
    assert {name: parts[name] for name in own} == own
    for name in own:
        assert digest_of(parts | {name: "0"}) != result.plans[0].digest


def test_a_key_that_nothing_reads_would_be_found() -> None:
    """The comparison itself: a case that differs in nothing has the same digest, one that differs in a value not."""
    case = CASES[0]
    assert digest(changed(case, "config.json", ("rms_norm_eps",), 1e-05)) == digest(case)
    assert digest(changed(case, "config.json", ("rms_norm_eps",), 2e-05)) != digest(case)
