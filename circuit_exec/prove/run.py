"""Proves relations, definitions as scalar DAGs and compiled kernels by bytes, and puts the records into their file."""

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context

from msgspec import Struct

from circuit.load.proofs import EQUAL, Proof, load_proofs, proofs_path, proofs_text
from circuit.load.rules import Rule
from circuit.lower.cases import cases_of
from circuit.lower.hashes import hashes
from circuit.lower.proofs import Differs, Equal, compared
from circuit.lower.proven import envelope, relations
from circuit_exec.cache import Cache
from circuit_exec.host import class_to_run, this_host
from circuit_exec.prove.compiled import SEED, compiled_apart
from circuit_exec.prove.given import Class

Progress = Callable[[str, float], None]


class Verdict(Struct, frozen=True, kw_only=True):
    """What became of one rule. `proof` is its record, made even where the claim fails; `failures` say where it does."""

    rule: str
    proof: Proof
    failures: tuple[str, ...]
    elements: int
    expressions: int


def prove(
    given: Class, rules: tuple[Rule, ...], cache: Cache, progress: Progress, n_processes: int = 1
) -> Iterator[Verdict]:
    """The verdict on each rule, in order; a class that this host cannot run is refused.

    No verdict depends on another: several rules are proven at once by as many processes.
    """
    class_to_run(given.library, this_host(), given.hardware.name)
    if min(n_processes, len(rules)) > 1:
        yield from _by_processes(given, rules, cache, progress, n_processes)
    else:
        for place, rule in enumerate(rules):

            def tell(fraction: float, place: int = place) -> None:
                progress("proving", (place + fraction) / len(rules))

            yield _verdict(given, rule, cache, tell)
    progress("proving", 1.0)


def _by_processes(
    given: Class, rules: tuple[Rule, ...], cache: Cache, progress: Progress, n_processes: int
) -> Iterator[Verdict]:
    pool = ProcessPoolExecutor(n_processes, get_context("spawn"), _end_at_ctrl_c)
    try:
        jobs = [pool.submit(_verdict, given, rule, cache, _silent) for rule in rules]
        for place, job in enumerate(jobs):
            progress("proving", place / len(rules))
            yield job.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _end_at_ctrl_c() -> None:
    """A process of the pool ends without a word where the one that made it says why."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _silent(fraction: float) -> None:
    """Progress that nobody sees."""


def written(given: Class, verdicts: tuple[Verdict, ...]) -> str:
    """The text of the records' file with these verdicts in it; records of rules that are gone are left out."""
    known = {rule.proof for rule in relations(given.rules)}
    records = {proof.id: proof for proof in load_proofs(given.library, given.hardware) if proof.id in known}
    records |= {verdict.proof.id: verdict.proof for verdict in verdicts}
    return proofs_text(tuple(records.values()))


def _verdict(given: Class, rule: Rule, cache: Cache, tell: Callable[[float], None]) -> Verdict:
    failures: list[str] = []
    elements = expressions = 0
    cases = cases_of(rule)
    for place, case in enumerate(cases):
        tell(0.5 * place / len(cases))
        match compared(case):
            case Equal() as equal:
                elements, expressions = elements + equal.elements, expressions + equal.expressions
            case Differs() as differs:
                where = f"{differs.where} at rows={case.rows} {case.shape}"
                failures.append(f"{where}: fused {differs.fused}, chain {differs.chain}")
    compiled: list[str] = []
    for place, mode in enumerate(rule.modes):
        tell(0.5 + 0.5 * place / len(rule.modes))
        words, wrong = compiled_apart(given, rule, mode, cache)
        compiled.append(words)
        failures += wrong
    proof = Proof(
        id=rule.proof or rule.id,
        verdict="differs" if failures else EQUAL,
        date=datetime.now(UTC).date().isoformat(),
        rule=hashes(rule).rule,
        modes=rule.modes,
        rows=rule.rows,
        accepts=envelope(rule),
        cases=hashes(rule).cases,
        seeds=(SEED,),
        compiled=tuple(compiled),
        file=proofs_path(given.hardware.name),
        line=None,
    )
    return Verdict(rule=rule.id, proof=proof, failures=tuple(failures), elements=elements, expressions=expressions)
