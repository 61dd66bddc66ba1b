"""Runs met and its peers on the same files, in turn, and prints the table: python -m bench.run --help."""

import argparse
import datetime
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import ceilings
from bench.contestants import contestants, start
from bench.errors import BenchError
from bench.models import model_file
from bench.paths import BENCH, FORMATS, ISAS
from bench.results import Cell, Raw, Setting, merged, read, write
from bench.setting import setting
from bench.table import table
from bench.works import COMPARED, work_named
from circuit.errors import MetError
from circuit_exec.build import available_threads
from circuit_exec.host import processor_features

ROUNDS = 5


def main(arguments: Sequence[str]) -> int:
    """Gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        shared = setting(options.threads)
        cells = read(options.out, shared)
        if not options.table:
            cells = _measure(options, shared, cells)
        print(options.out.read_text(encoding="utf-8") if options.json else _tables(cells, options.isa))
    except (BenchError, MetError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted: the cells measured before are in {options.out}", file=sys.stderr)
        return 130
    return 0


def order(n: int, round: int) -> list[int]:
    """Who goes when: each round begins with the next contestant, so that nobody always follows the same one."""
    return [(place + round) % n for place in range(n)]


def measure(format: str, work_name: str, options: argparse.Namespace, probes: ceilings.Probes, tell: Progress) -> Cell:
    """One cell: the probes, the rounds of all contestants in turn, the probes again."""
    work, model = work_named(work_name), model_file(format)
    taking_part = contestants(format, work_name, options.isas, options.activations)
    if not options.torch:
        taking_part = tuple(each for each in taking_part if each.engine != "torch")
    tok_s: list[list[float]] = [[] for _ in taking_part]
    bar = tell.add_task(f"{format} {work_name}", total=len(taking_part) * (options.rounds + 1))
    with ExitStack() as stack:
        workers = []
        for each in taking_part:
            worker = start(each, model, options.threads, work)
            stack.callback(worker.close)
            workers.append(worker)
            tell.advance(bar)
        before = {isa: probes.speeds(isa) for isa in options.isas}
        for round in range(options.rounds):
            for place in order(len(workers), round):
                tok_s[place].append(work.n_sequences * work.n_tokens / workers[place].seconds())
                tell.advance(bar)
        after = {isa: probes.speeds(isa) for isa in options.isas}
    return Cell(
        format=format,
        work=work_name,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        n_sequences=work.n_sequences,
        step_tokens=work.n_tokens if work.mode == "prefill" else work.n_sequences,
        needs=ceilings.needs(ceilings.sizes(model), work),
        before=before,
        after=after,
        raw=tuple(
            Raw(contestant=each, info=worker.info, tok_s=tuple(found))
            for each, worker, found in zip(taking_part, workers, tok_s, strict=True)
        ),
    )


def _measure(options: argparse.Namespace, shared: Setting, cells: list[Cell]) -> list[Cell]:
    probes = ceilings.Probes(options.threads)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
            for format in options.formats:
                for work in options.works:
                    cells = merged(cells, measure(format, work, options, probes, progress))
                    write(options.out, shared, cells, options.isa)
    finally:
        probes.close()
    return cells


def _tables(cells: list[Cell], isa: str) -> str:
    measured = {raw.contestant.isa for cell in cells for raw in cell.raw}
    ordered = sorted(measured, key=lambda each: (each != isa, each))
    return "\n\n".join(table(cells, each) for each in ordered)


def isas() -> tuple[str, ...]:
    """Both, or one where the processor has nothing above AVX2."""
    return ISAS if "avx512f" in processor_features() else ISAS[:1]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description="Compares met with llama.cpp and PyTorch.")
    names = tuple(work.name for work in COMPARED)
    parser.add_argument("--formats", type=_some(FORMATS), default=FORMATS, metavar="A,B", help=", ".join(FORMATS))
    parser.add_argument("--works", type=_some(names), default=names, metavar="A,B", help=", ".join(names))
    both = ("f32", "int8")
    parser.add_argument("--activations", type=_some(both), default=both, metavar="A,B", help="of met: f32, int8")
    parser.add_argument("--isas", type=_some(ISAS), default=isas(), metavar="A,B", help="measured: avx2, native")
    parser.add_argument("--isa", choices=ISAS, default=isas()[-1], help="which of them `rows` and the first table show")
    parser.add_argument("--threads", type=int, default=available_threads(), metavar="N", help="of every contestant")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds of a cell")
    parser.add_argument("--quick", dest="rounds", action="store_const", const=1, help="one round: a look, not a figure")
    parser.add_argument("--no-torch", dest="torch", action="store_false", help="leave PyTorch out")
    parser.add_argument("--out", type=Path, default=BENCH / "results" / "latest.json", help="the results, merged into")
    parser.add_argument("--table", action="store_true", help="print what was measured before, measure nothing")
    parser.add_argument("--json", action="store_true", help="print the results file in place of the table")
    return parser


def _some(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    def chosen(text: str) -> tuple[str, ...]:
        names = text.split(",")
        unknown = [name for name in names if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not one of {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return chosen


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
