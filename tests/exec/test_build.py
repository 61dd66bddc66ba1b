"""The build cache: compiled once, made again when damaged, and what stops it."""

import ctypes
import importlib.util
import os
import subprocess
import tomllib
from pathlib import Path

import pytest

from circuit.emit.sources import Sources, program_text
from circuit.errors import RunError
from circuit.text import Source
from circuit_exec import build as building
from circuit_exec.build import (
    TARGETS,
    UNIT_BYTES,
    build,
    find_compiler,
    find_target,
    processor_features,
    units,
)
from circuit_exec.cache import Cache
from circuit_exec.library import library

SOURCE = '__attribute__((visibility("default"))) int answer(void) { return 42; }\n'


def named(*texts: str) -> Sources:
    """A program of files a.c, b.c, …"""
    return tuple(Source(path=f"{chr(97 + place)}.c", text=text) for place, text in enumerate(texts))


def steps_of(source: str, cache: Cache) -> tuple[Path, list[float]]:
    steps: list[float] = []
    return build(named(source), cache, lambda what, part: steps.append(part)), steps


def test_a_program_is_compiled_once(tmp_path: Path) -> None:
    cache = Cache(root=tmp_path)
    library, steps = steps_of(SOURCE, cache)
    assert steps == [0.0, 0.5, 1.0]
    assert library.with_suffix(".c").read_text() == program_text(named(SOURCE))
    assert steps_of(SOURCE, cache) == (library, [])
    assert steps_of(SOURCE.replace("42", "43"), cache)[0] != library


@pytest.mark.parametrize("suffix", [".so", ".sha256"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, suffix: str) -> None:
    cache = Cache(root=tmp_path)
    library, _ = steps_of(SOURCE, cache)
    whole = library.read_bytes()
    file = library.with_suffix(suffix)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert steps_of(SOURCE, cache) == (library, [0.0, 0.5, 1.0])
    assert library.read_bytes() == whole, "the same source gives the same library, wherever it is compiled"


def test_an_interrupt_leaves_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    compiler = find_compiler(os.environ["PATH"])
    monkeypatch.setattr(building, "find_compiler", lambda path: compiler)
    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        build(named(SOURCE), Cache(root=tmp_path), lambda what, part: None)
    assert [path.suffix for path in (tmp_path / "programs").iterdir()] == [".c"]


def test_what_the_compiler_refuses_is_shown_with_the_source(tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        build(named("int answer(void) { return forty_two; }\n"), Cache(root=tmp_path), lambda what, part: None)
    (source,) = (tmp_path / "programs").glob("*.c")
    problem = caught.value.problems[0]
    assert problem.message.startswith("the C compiler ")
    assert " refused the program:\n" in problem.message
    assert "forty_two" in problem.message
    assert problem.file == str(source)
    assert problem.fix == "put another compiler first on PATH, and report this with the file"


def test_without_a_compiler_the_fix_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RunError) as caught:
        find_compiler("/nowhere")
    assert str(caught.value) == (
        "error: no C compiler: none of cc, gcc, clang is on PATH, and the package ziglang is not installed\n"
        "  = fix: install one, for example with `apt install gcc`, `xcode-select --install` or `pip install ziglang`"
    )


def test_a_compiler_that_does_not_run_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(RunError, match=r"does not answer --version: .* exit status 3") as caught:
        find_compiler(str(tmp_path))
    assert caught.value.problems[0].fix == "repair it, or put another one first on PATH"


def test_a_processor_without_fma_is_refused_by_name() -> None:
    features = frozenset(("avx", "avx2", "bmi1", "bmi2", "f16c", "abm"))
    with pytest.raises(RunError) as caught:
        find_target("Linux", "x86_64", features)
    assert str(caught.value) == (
        "error: class cpu is compiled for x86-64-v3-linux, and this processor lacks fma, movbe\n"
        "  = fix: run it on a processor that has them"
    )


def test_programs_are_compiled_for_what_the_class_states() -> None:
    file = next(file for file in library().files if file.path == "kernels/cpu/HARDWARE.toml")
    arch = tomllib.loads(file.text)["hardware"]["arch"]
    found = {machine: target.flags for (system, machine), target in TARGETS.items() if system == "Linux"}
    assert found == {machine: (f"-march={name}",) for machine, name in arch.items()}


def test_an_unknown_system_is_refused_by_name() -> None:
    with pytest.raises(RunError) as caught:
        find_target("Windows", "AMD64", frozenset())
    assert str(caught.value) == (
        "error: class cpu does not run on Windows AMD64\n"
        "  = fix: run it on one of these: Linux x86_64, Linux aarch64, Darwin arm64"
    )


def test_this_processor_says_what_it_has() -> None:
    assert processor_features()


def test_files_of_a_program_see_each_other_and_their_headers(tmp_path: Path) -> None:
    sources = (
        Source(path="answer.h", text="#ifndef ANSWER\n#define ANSWER\nint part(void);\n#endif\n"),
        Source(path="parts/part.c", text='#include "answer.h"\nint part(void) { return 21; }\n'),
        Source(path="whole.c", text='#include "answer.h"\n' + SOURCE.replace("42", "2 * part()")),
    )
    library = ctypes.CDLL(str(build(sources, Cache(root=tmp_path), lambda what, part: None)))
    assert library.answer() == 42


def test_units_hold_every_file_once_and_are_of_similar_size() -> None:
    texts = [f"int x{n}; /* {'x' * 1000 * (n % 40)} */\n" for n in range(120)]
    sources = tuple(Source(path=f"{n}.c", text=text) for n, text in enumerate(texts))
    size = {f'#include "{source.path}"': len(source.text) for source in sources}
    made = units((*sources, Source(path="a.h", text="int y;\n")))
    lines = [unit.text.splitlines() for unit in made]
    assert sorted(line for unit in lines for line in unit) == sorted(size)
    sizes = [sum(size[line] for line in unit) for unit in lines]
    assert sizes == sorted(sizes, reverse=True)
    assert max(sizes) <= UNIT_BYTES + max(size.values())
    assert min(sizes) > UNIT_BYTES / 2
    assert made == units(tuple(reversed(sources)))
