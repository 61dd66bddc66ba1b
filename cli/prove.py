"""`met circuit prove` and `met circuit lint`: whether relations keep the bytes, and what is wrong with rules."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circuit.errors import PlanError, Problem
from cli.options import JsonOption, PolicyOption

if TYPE_CHECKING:
    from circuit_exec.prove.given import Class
    from circuit_exec.prove.run import Verdict

PROVE_EXAMPLES = """Examples:

\b
  met circuit prove
  met circuit prove linear_qkv --json
  met circuit prove --class avx2 --write
  met circuit prove linear_gate_up --class avx2 --ab smollm2 --write
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
    write: Annotated[
        bool, typer.Option("--write", help="Write the records to the class's PROOFS.toml; with --ab, EVIDENCE.toml.")
    ] = False,
    ab: Annotated[
        str | None, typer.Option("--ab", metavar="MODEL", help="Measure each rule on against off instead.")
    ] = None,
    policy: PolicyOption = None,
    as_json: JsonOption = False,
) -> int:
    """Prove that fused rules keep the bytes: definitions node by node, compiled kernels byte by byte.

    Exits with 1 when a claimed equality fails; then nothing is written. With --ab, measures decode steps of 1 to 64
    rows with and without each rule under --policy, and without it once more as a control.
    """
    from circuit.load.proofs import proofs_path
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.library import library, library_root
    from circuit_exec.prove.given import chosen, class_of
    from circuit_exec.prove.run import prove as verdicts_of
    from circuit_exec.prove.run import written
    from cli.evidence import measured
    from cli.progress import progress_bar

    given = class_of(library(), hardware_class)
    asked = chosen(given, tuple(rules or ()))
    if ab is not None:
        return measured(ab, given, asked, tuple(policy or ()), named=bool(rules), write=write, as_json=as_json)
    if policy:
        raise PlanError(Problem(message="--policy is for --ab: a proof holds under any", fix="leave it out"))
    found: list[Verdict] = []
    with progress_bar() as progress:
        for verdict in verdicts_of(given, asked, user_cache(), progress, available_threads()):
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
    """Look for rules without a winner, rules that never win, holes, examples that do not fire, defaults that lose.

    Exits with 1 when something is found. Defaults that nobody has measured are told, and no failure.
    """
    from circuit.errors import render
    from circuit.load.evidence import load_evidence
    from circuit.load.families import load_families
    from circuit.load.hardware import load_hardware
    from circuit.load.policy import load_policy
    from circuit.load.rules import load_rules
    from circuit.lower.evidence import contradicted, unmeasured
    from circuit.lower.holes import findings
    from circuit_exec.library import library

    files = library()
    hardware = load_hardware(files, hardware_class)
    families = load_families(files, hardware)
    rules, evidence = load_rules(files, hardware, families), load_evidence(files, hardware)
    problems = (*findings(rules, families, hardware, load_policy(files)), *contradicted(rules, evidence, hardware))
    notes = tuple(unmeasured(rules, evidence, hardware))
    if as_json:
        found = {"class": hardware.name, "rules": len(rules), "findings": _listed(problems), "notes": _listed(notes)}
        print(json.dumps(found, indent=1))
        return 1 if problems else 0
    for note in notes:
        print(f"note: {note.message}; {note.fix}")
    print(render(problems) if problems else f"{len(rules)} rules of class {hardware.name}: nothing found")
    return 1 if problems else 0


def _listed(problems: tuple[Problem, ...]) -> list[dict[str, str | int | None]]:
    return [{"message": p.message, "fix": p.fix, "file": p.file, "line": p.line} for p in problems]
