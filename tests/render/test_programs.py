"""Several hundred random kernels in one C file, scheduled and not: the bytes are the evaluator's."""

from pathlib import Path

import pytest

from circuit.errors import PlanError
from circuit.uop.schedule import Schedule, apply
from tests.render.harness import QUICK, Effects, Library, compile_kernels, expected, same, written_slots
from tests.render.programs import Program, program

SEEDS = range(80)
"""Each makes three functions: as written, and under two schedules."""


def variants(p: Program) -> list[Effects]:
    return [p.effects, *(_applied(p.effects, schedule) for schedule in p.schedules)]


def _applied(effects: Effects, schedule: Schedule) -> Effects:
    """The schedule, without the steps that this kernel has no range for."""
    for step in schedule:
        try:
            effects = apply(effects, (step,))
        except PlanError:
            continue
    return effects


@pytest.fixture(scope="module")
def programs() -> dict[int, tuple[Program, list[Effects]]]:
    return {seed: (p := program(seed), variants(p)) for seed in SEEDS}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory, programs: dict[int, tuple[Program, list[Effects]]]) -> Library:
    folder: Path = tmp_path_factory.mktemp("programs")
    kernels = {f"f{seed}_{n}": e for seed, (_, found) in programs.items() for n, e in enumerate(found)}
    return compile_kernels(folder, kernels, QUICK)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kernels_scheduled_or_not_give_the_bytes_of_the_evaluator(
    library: Library, programs: dict[int, tuple[Program, list[Effects]]], seed: int
) -> None:
    p, found = programs[seed]
    want = expected(p.effects, p.buffers, p.scalars)
    for n, effects in enumerate(found):
        for nt in {1, p.threads}:
            got = library.run(f"f{seed}_{n}", effects, p.buffers, p.scalars, nt)
            assert same(got, want, written_slots(effects)), f"variant {n} on {nt} threads: {p.schedules}"
