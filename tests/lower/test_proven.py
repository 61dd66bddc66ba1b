"""PROOFS.toml: every relation of the project has a current record; what is stale, missing or too narrow is refused."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from circuit.compiled import Goal
from circuit.errors import LoadError
from circuit.load.hardware import load_hardware
from circuit.load.inputs import Library
from circuit.load.proofs import Proof, load_proofs, proofs_text
from circuit.load.rules import Rule
from circuit.lower.hashes import hashes
from circuit.lower.proven import current, proven, relations
from circuit.pipeline import lowered
from circuit.text import Source
from circuit.uop.build import f32
from tests.lower.dense import Sizes, dense
from tests.lower.library import class_rules, own_library, with_files

LIBRARY = own_library()
CPU = load_hardware(LIBRARY, "cpu")
RULES = class_rules(LIBRARY)
PROOFS = load_proofs(LIBRARY, CPU)
ID = "glu+linear_down"
RULE = next(rule for rule in RULES if rule.id == ID)
PROOF = next(proof for proof in PROOFS if proof.id == ID)
AT = f"{PROOF.file}:{PROOF.line}"
AGAIN = f"run `met circuit prove {ID} --class cpu --write`"


def check(rules: tuple[Rule, ...], proofs: tuple[Proof, ...], expected: str) -> None:
    """These rules with these records are refused with exactly this text."""
    with pytest.raises(LoadError) as error:
        current(proven(rules, proofs, CPU), proofs, CPU, Library(files=()))
    assert str(error.value) == expected.strip()


def changed(change: Callable[[Rule], Rule]) -> tuple[Rule, ...]:
    """The rules with one of them changed."""
    return tuple(change(rule) if rule.id == ID else rule for rule in RULES)


def recorded(**changes: object) -> tuple[Proof, ...]:
    """The records with one of them changed."""
    return tuple(replace(proof, **changes) if proof.id == ID else proof for proof in PROOFS)


@pytest.mark.parametrize("name", ["cpu", "avx2", "avx512"])
def test_every_relation_has_a_current_record_at_every_case(name: str) -> None:
    hardware, rules = load_hardware(LIBRARY, name), class_rules(LIBRARY, name)
    proofs = {proof.id: proof for proof in load_proofs(LIBRARY, hardware)}
    assert proven(rules, tuple(proofs.values()), hardware) == rules
    for rule in relations(rules):
        proof = proofs[rule.proof or ""]
        assert (proof.rule, proof.cases) == (hashes(rule).rule, hashes(rule).cases), rule.id
        assert len(proof.compiled) == len(rule.modes)


def test_a_relation_without_a_record_is_refused() -> None:
    check(
        RULES,
        tuple(proof for proof in PROOFS if proof.id != ID),
        f"""
error: rule `{ID}` is bit_identical, and class cpu has no proof `{ID}` of it
 --> {RULE.file}:{RULE.line}
  = fix: {AGAIN}, which adds it to kernels/cpu/common/PROOFS.toml""",
    )


def test_evidence_does_not_inherit() -> None:
    files = tuple(source for source in LIBRARY.files if source.path != "kernels/avx2/common/PROOFS.toml")
    hardware = load_hardware(LIBRARY, "avx2")
    proofs = load_proofs(Library(files), hardware)
    assert proofs == ()
    with pytest.raises(LoadError, match=r"rule `glu\+linear_down` is bit_identical, and class avx2 has no proof"):
        proven(RULES, proofs, hardware)


def test_a_record_of_no_rule_is_refused() -> None:
    check(
        tuple(rule for rule in RULES if rule.id != ID),
        PROOFS,
        f"error: proof `{ID}` is of no rule of class cpu\n --> {AT}\n  = fix: remove it",
    )


@pytest.mark.parametrize(
    ("proofs", "message"),
    [
        (recorded(verdict="differs"), 'its verdict is "differs"'),
        (recorded(modes=("decode",)), f"rule `{ID}` ({RULE.file}:{RULE.line}) reaches further: mode prefill"),
        (
            recorded(rows=(1, 64)),
            f"rule `{ID}` ({RULE.file}:{RULE.line}) reaches further: rows 1-65536 where 1-64 are proven",
        ),
        (recorded(rule="0" * 64), f"rule `{ID}` ({RULE.file}:{RULE.line}) has changed since"),
        (
            recorded(cases=(replace(PROOF.cases[0], shape="g=8"), *PROOF.cases[1:])),
            f"it is of the case `g=8`, and the first case is `{PROOF.cases[0].shape}` today",
        ),
        (
            recorded(cases=(replace(PROOF.cases[0], fused="0" * 64), *PROOF.cases[1:])),
            f"the definition of the fused side has changed since: 000000000000 then, {PROOF.cases[0].fused[:12]} today",
        ),
        (
            recorded(cases=(replace(PROOF.cases[0], chain="0" * 64), *PROOF.cases[1:])),
            f"the definition of the chain side has changed since: 000000000000 then, {PROOF.cases[0].chain[:12]} today",
        ),
    ],
)
def test_a_record_that_does_not_cover_its_rule_is_refused(proofs: tuple[Proof, ...], message: str) -> None:
    check(RULES, proofs, f"error: proof `{ID}`: {message}\n --> {AT}\n  = fix: {AGAIN}")


def _accepting(rule: Rule, element: int, name: str, values: tuple[str, ...] | str) -> Rule:
    pattern = list(rule.pattern)
    accepts = tuple((n, values if n == name else a) for n, a in pattern[element].accepts)
    pattern[element] = replace(pattern[element], accepts=accepts)
    return replace(rule, pattern=tuple(pattern))


@pytest.mark.parametrize(
    ("change", "outside"),
    [
        (lambda rule: _accepting(rule, 0, "param.kind", ("silu", "gelu")), "glu with kind = gelu"),
        (lambda rule: _accepting(rule, 0, "param.kind", "any"), "glu with kind = any"),
        (lambda rule: _accepting(rule, 1, "role", ("down", "o")), "linear with role = o"),
        (lambda rule: _accepting(rule, 1, "weight", ("f32", "q9_z")), "linear with weight = q9_z"),
        (
            lambda rule: replace(rule, modes=("decode", "verify"), rows=(1, 70000)),
            "mode verify, rows 1-70000 where 1-65536 are proven",
        ),
    ],
)
def test_a_rule_that_takes_more_than_is_proven_is_refused(change: Callable[[Rule], Rule], outside: str) -> None:
    message = f"rule `{ID}` ({RULE.file}:{RULE.line}) reaches further: {outside}"
    check(changed(change), PROOFS, f"error: proof `{ID}`: {message}\n --> {AT}\n  = fix: {AGAIN}")


def test_a_rule_that_takes_less_keeps_its_proof() -> None:
    def narrower(rule: Rule) -> Rule:
        return replace(_accepting(rule, 1, "role", ("down",)), modes=("decode",), rows=(1, 8))

    assert proven(changed(narrower), PROOFS, CPU)


def test_a_format_that_is_new_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that takes `any` format takes one more; its proof does not."""
    monkeypatch.setattr("circuit.lower.proven.PANEL_FORMATS", ("f32", "q9_z"))
    with pytest.raises(LoadError, match=r"reaches further: linear with weight = q9_z"):
        proven(RULES, PROOFS, CPU)


def test_a_changed_definition_makes_proofs_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuit.sigma.pointwise.silu", lambda x: x * f32(2.0))
    with pytest.raises(LoadError) as error:
        current(RULES, PROOFS, CPU, Library(files=()))
    messages = [problem.message.partition(":")[0] for problem in error.value.problems]
    changed = ("glu+act_quant", "glu+linear_down", "glu+linear_down+residual_add")
    assert sorted(messages) == sorted(f"proof `{name}`" for name in changed for _ in range(2))


def test_the_records_read_back_from_their_text() -> None:
    text = proofs_text(PROOFS)
    again = load_proofs(with_files(LIBRARY, kernels__cpu__common__PROOFS=text), CPU)
    assert [replace(p, line=None) for p in again] == [replace(p, line=None) for p in PROOFS]
    assert Source(path="kernels/cpu/common/PROOFS.toml", text=text) in LIBRARY.files, "the file is as it is written"


def test_a_record_that_is_written_twice_is_refused() -> None:
    text = proofs_text((PROOF, PROOF))
    with pytest.raises(LoadError) as error:
        load_proofs(with_files(LIBRARY, kernels__cpu__common__PROOFS=text), CPU)
    (problem,) = error.value.problems
    assert (problem.message, problem.fix) == (f"proof `{ID}` is written twice", "remove one")
    assert problem.excerpt == "[[proof]]"


def test_planning_with_fused_rules_refuses_what_is_not_proven_and_single_rules_need_no_proof() -> None:
    library = with_files(LIBRARY, kernels__cpu__common__PROOFS="schema = 1\n")
    tir = dense(Sizes(layers=1))
    with pytest.raises(LoadError, match="has no proof"):
        next(lowered(tir, library, Goal(hardware_class="cpu"), ()))
    assert next(lowered(tir, library, Goal(hardware_class="cpu", rules="reference"), ()))[0] == "groups"
