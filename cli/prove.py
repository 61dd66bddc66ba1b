"""`met circuit prove` and `met circuit lint`: whether relations keep the bytes, and what is wrong with rules."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.options import JsonOption

if TYPE_CHECKING:
    from circuit.load.rules import Rule
    from circuit_exec.ab import Rung
    from circuit_exec.prove.given import Class
    from circuit_exec.prove.run import Verdict

PROVE_EXAMPLES = """Examples:

\b
  met circuit prove
  met circuit prove linear_qkv --json
  met circuit prove --class avx2 --write
  met circuit prove linear_gate_up --ab smollm2
"""
LINT_EXAMPLES = """Examples:

\b
  met circuit lint
  met circuit lint --class avx2
"""

ClassOption = Annotated[str, typer.Option("--class", metavar="C", help="The hardware class.")]


def prove(
    rules: Annotated[list[str] | None, typer.Argument(metavar="[RULE]...", help="Relations; all by default.")] = None,
    hardware_class: ClassOption = "cpu",
    write: Annotated[bool, typer.Option("--write", help="Write the records to the class's PROOFS.toml.")] = False,
    ab: Annotated[
        str | None, typer.Option("--ab", metavar="MODEL", help="Measure each rule on against off instead.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Prove that fused rules keep the bytes: definitions node by node, compiled kernels byte by byte.

    Exits with 1 when a claimed equality fails; then nothing is written. With --ab, measures decode steps of 1 to 64
    rows with and without each rule, and with the rule once more as a control.
    """
    from circuit.load.proofs import proofs_path
    from circuit_exec.cache import user_cache
    from circuit_exec.library import library, library_root
    from circuit_exec.prove.given import chosen, class_of
    from circuit_exec.prove.run import prove as verdicts_of
    from circuit_exec.prove.run import written
    from cli.progress import progress_bar

    given = class_of(library(), hardware_class)
    asked = chosen(given, tuple(rules or ()))
    if ab is not None:
        return _measure(ab, given, asked, write, as_json)
    found: list[Verdict] = []
    with progress_bar() as progress:
        for verdict in verdicts_of(given, asked, user_cache(), progress):
            found.append(verdict)
            if not as_json:
                print(_line(verdict), flush=True)
    failed = any(verdict.failures for verdict in found)
    if write and not failed:
        path = Path(library_root(), proofs_path(hardware_class))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(written(given, tuple(found)), encoding="utf-8")
    if as_json:
        print(_json(given, found), end="")
    return 1 if failed else 0


def _measure(model: str, given: "Class", asked: "tuple[Rule, ...]", write: bool, as_json: bool) -> int:
    from circuit_exec.ab import measure
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from cli.models import model_path
    from cli.progress import progress_bar

    if write:
        raise PlanError(Problem(message="--write is for proofs, not for --ab", fix="leave out one of them"))
    found = []
    with progress_bar() as progress:
        for rule in asked:
            name, threads = given.hardware.name, available_threads()
            for rung in measure(model_path(model), name, rule, user_cache(), threads, progress):
                found.append({"rule": rule.id, "threads": threads, **asdict(rung)})
                if not as_json:
                    print(_rung(rule.id, rung), flush=True)
    if as_json:
        print(json.dumps({"class": given.hardware.name, "steps": found}, indent=1))
    return 0


def _rung(rule: str, rung: "Rung") -> str:
    from circuit_exec.ab import gain, noise

    times = f"on {rung.on_ms:.3f} ms, off {rung.off_ms:.3f} ms: {100 * gain(rung):+.1f} %"
    energy = "energy cannot be read"
    if rung.on_joules is not None and rung.off_joules is not None:
        energy = f"on {rung.on_joules:.4f} J, off {rung.off_joules:.4f} J"
    return f"{rule}: {rung.rows} rows: {times} (control {100 * noise(rung):.1f} %); {energy}"


def _line(verdict: "Verdict") -> str:
    if verdict.failures:
        return "\n".join([f"{verdict.rule}: differs", *(f"  {failure}" for failure in verdict.failures)])
    cases = f"{len(verdict.proof.cases)} cases" if len(verdict.proof.cases) > 1 else "1 case"
    scalars = f"{verdict.elements} elements are the same of {verdict.expressions} expressions in {cases}"
    return f"{verdict.rule}: equal; {scalars}; compiled bytes equal in {' and '.join(verdict.proof.modes)}"


def _json(given: "Class", found: "list[Verdict]") -> str:
    rules = [
        {
            "rule": verdict.rule,
            "verdict": verdict.proof.verdict,
            "elements": verdict.elements,
            "expressions": verdict.expressions,
            "cases": [case.shape for case in verdict.proof.cases],
            "compiled": list(verdict.proof.compiled),
            "failures": list(verdict.failures),
        }
        for verdict in found
    ]
    return json.dumps({"class": given.hardware.name, "rules": rules}, indent=1) + "\n"


def lint(hardware_class: ClassOption = "cpu", as_json: JsonOption = False) -> int:
    """Look for rules without a winner, rules that never win, holes, and examples that do not fire.

    Exits with 1 when something is found.
    """
    from circuit.errors import render
    from circuit.load.families import load_families
    from circuit.load.hardware import load_hardware
    from circuit.load.policy import load_policy
    from circuit.load.rules import load_rules
    from circuit.lower.holes import findings
    from circuit_exec.library import library

    files = library()
    hardware = load_hardware(files, hardware_class)
    families = load_families(files, hardware)
    rules = load_rules(files, hardware, families)
    problems = findings(rules, families, hardware, load_policy(files))
    if as_json:
        found = [{"message": p.message, "fix": p.fix, "file": p.file, "line": p.line} for p in problems]
        print(json.dumps({"class": hardware.name, "rules": len(rules), "findings": found}, indent=1))
    elif problems:
        print(render(problems))
    else:
        print(f"{len(rules)} rules of class {hardware.name}: nothing found")
    return 1 if problems else 0
