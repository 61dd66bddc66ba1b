"""`met circuit prove` and `lint`: compiled kernels are compared by bytes, records are written, failures end with 1."""

import json
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from circuit.emit.program import emit_program
from circuit.errors import PlanError, RunError
from circuit.load.families import Point
from circuit.load.hardware import load_hardware
from circuit.load.proofs import load_proofs
from circuit.lower.ir import Definition, Group, Kernel
from circuit.lower.scheduled import realize
from circuit.tir.ir import Tir
from circuit.uop.node import DType, Op, UOp
from circuit.uop.schedule import rebuild
from circuit_exec import library as library_module
from circuit_exec.build import build
from circuit_exec.cache import Cache
from circuit_exec.library import library
from circuit_exec.prove.given import chosen, class_of
from circuit_exec.prove.run import Verdict, prove, written
from circuit_exec.prove.team import Team
from cli.main import status
from tests.emit import small

RULE = "rope+kv_write"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """A cache of this test alone, also for commands."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Cache(root=tmp_path / "cache" / "met")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the data files, which commands take for their own."""
    for folder in ("kernels", "recipes"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(library_module, "library_root", lambda: tmp_path)
    return tmp_path


def contracted(tir: Tir, group: Group, point: Point, definition: Definition) -> Kernel:
    """Kernels of fused groups with one product less that is rounded: a*b + c in one step."""
    kernel = realize(tir, group, point, definition)

    def visit(node: UOp) -> UOp:
        if node.op is Op.ADD and node.dtype is DType.F32 and node.src[0].op is Op.MUL:
            return UOp(Op.MULACC, (*node.src[0].src, node.src[1]))
        return node

    if len(group.nodes) == 1:
        return kernel
    return replace(kernel, effects=tuple(rebuild(effect, visit) for effect in kernel.effects))


def rounded_twice(tir: Tir, group: Group, point: Point, definition: Definition) -> Kernel:
    """Kernels of fused groups whose products are rounded before they are added."""
    kernel = realize(tir, group, point, definition)

    def visit(node: UOp) -> UOp:
        if node.op is Op.MULACC and node.dtype is DType.F32:
            return UOp(Op.ADD, (UOp(Op.MUL, node.src[:2]), node.src[2]))
        return node

    if len(group.nodes) == 1:
        return kernel
    return replace(kernel, effects=tuple(rebuild(effect, visit) for effect in kernel.effects))


def verdict(cache: Cache) -> Verdict:
    given = class_of(library(), "cpu")
    (found,) = prove(given, chosen(given, (RULE,)), cache, lambda what, fraction: None)
    return found


def test_a_relation_that_holds_is_equal_in_definitions_and_in_compiled_bytes(cache: Cache) -> None:
    found = verdict(cache)
    assert found.failures == ()
    assert found.proof.verdict == "equal"
    assert [words.partition(":")[0] for words in found.proof.compiled] == [
        "decode, rows 1, 2, threads 1, 2",
        "prefill, rows 1, 2, threads 1, 2",
    ]
    record = next(p for p in load_proofs(library(), load_hardware(library(), "cpu")) if p.id == RULE)
    assert replace(found.proof, date=record.date, line=record.line) == record


def test_a_compiled_kernel_with_other_bytes_is_caught(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circuit_exec.prove.compiled.realize", contracted)
    found = verdict(cache)
    assert found.proof.verdict == "differs"
    assert found.failures
    assert all(failure.startswith("1.kv[") for failure in found.failures)
    assert "compiled, 1 threads, rows=1" in found.failures[0]
    assert ": fused " in found.failures[0]


def test_threads_that_the_system_does_not_give_end_the_proof(cache: Cache) -> None:
    import resource

    program = build(emit_program((small.plan("decode"),)), cache, lambda what, fraction: None)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), hard))  # less than the stack of one thread
    try:
        with pytest.raises(RunError) as error, Team(program):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    assert str(error.value) == "error: the system gives no 2 threads\n  = fix: end other programs"


def test_a_rule_that_is_no_relation_is_refused() -> None:
    given = class_of(library(), "cpu")
    with pytest.raises(PlanError) as error:
        chosen(given, ("glu", RULE, "glue"))
    problem = error.value.problems[0]
    assert problem.message == "class cpu has no relation `glu`, `glue`"
    assert problem.fix.startswith("use one of: rms_norm+linear_qkv, rms_norm+linear_gate_up, ")


def test_records_of_other_rules_are_kept_and_those_of_gone_rules_left_out(cache: Cache) -> None:
    given = class_of(library(), "cpu")
    known = load_proofs(given.library, given.hardware)
    assert written(given, ()) == next(s.text for s in library().files if s.path == "kernels/cpu/common/PROOFS.toml")
    fewer = replace(given, rules=tuple(rule for rule in given.rules if rule.id != RULE))
    assert f'id = "{RULE}"' not in written(fewer, ())
    changed = Verdict(
        rule=RULE, proof=replace(known[0], id=RULE, date="2030-01-01"), failures=(), elements=1, expressions=1
    )
    text = written(given, (changed,))
    assert text.count('date = "2030-01-01"') == 1
    assert text.count("[[proof]]") == len(known)


def test_the_command_writes_records_only_when_asked(
    cache: Cache, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkout / "kernels/cpu/common/PROOFS.toml"
    path.unlink()
    assert status(["circuit", "prove", RULE]) == 0
    line = capsys.readouterr().out
    assert line.startswith("rope+kv_write: equal; 15360 elements are the same of ")
    assert line.endswith(" expressions in 4 cases; compiled bytes equal in decode and prefill\n")
    assert not path.exists()
    assert status(["circuit", "prove", RULE, "--write", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["class"], shown["rules"][0]["rule"], shown["rules"][0]["verdict"]) == ("cpu", RULE, "equal")
    assert len(shown["rules"][0]["cases"]) == 4
    assert path.read_text("utf-8").count("[[proof]]") == 1


def test_a_claim_that_fails_ends_with_1_and_writes_nothing(
    cache: Cache, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("circuit_exec.prove.compiled.realize", contracted)
    path = checkout / "kernels/cpu/common/PROOFS.toml"
    before = path.read_bytes()
    assert status(["circuit", "prove", RULE, "--write"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rope+kv_write: differs"
    assert lines[1].startswith("  1.kv[")
    assert path.read_bytes() == before


def test_a_kernel_that_is_wrong_at_the_point_of_few_rows_alone_is_caught(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = set[str]()

    def at_few_rows(tir: Tir, group: Group, point: Point, definition: Definition) -> Kernel:
        points.add(point.id)
        made = rounded_twice if point.id == "p48_r1" else realize
        return made(tir, group, point, definition)

    monkeypatch.setattr("circuit_exec.prove.compiled.realize", at_few_rows)
    given = class_of(library(), "cpu")
    (found,) = prove(given, chosen(given, ("glu+linear_down",)), cache, lambda what, fraction: None)
    assert {"p48_r1", "p48_r4"} <= points
    assert found.failures
    assert all("rows=1 " in failure or "rows=2 " in failure for failure in found.failures)


def test_lint_says_that_nothing_is_found_or_ends_with_1(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["circuit", "lint"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "37 rules of class cpu: nothing found"
    assert all(line.startswith("note: rule `") for line in out[:-1])
    path = checkout / "kernels/cpu/common/FUSIONS.toml"
    path.write_text(path.read_text("utf-8").replace("priority = 180", "priority = 200"), "utf-8")
    assert status(["circuit", "lint"]) == 1
    assert "error: rules `linear_kv` and `linear_qkv`" in capsys.readouterr().out
    assert status(["circuit", "lint", "--json"]) == 1
    finding = json.loads(capsys.readouterr().out)["findings"][0]
    assert finding["message"].endswith("can want the same node, both with priority 200")
    assert finding["file"] == "kernels/cpu/common/FUSIONS.toml"


@pytest.mark.slow
def test_several_rules_are_proven_at_once_and_told_in_their_order(cache: Cache) -> None:
    given = class_of(library(), "cpu")
    rules = chosen(given, ("rope+kv_write", "rms_norm+act_quant"))
    alone = list(prove(given, rules, cache, lambda what, fraction: None))
    assert list(prove(given, rules, cache, lambda what, fraction: None, n_processes=2)) == alone
    assert [verdict.rule for verdict in alone] == [rule.id for rule in rules]
