"""The build cache: compiled once, made again when damaged, and what stops it."""

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
from circuit_exec.build import BASE, Compiler, build, find_compiler, target_flags
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


def test_programs_of_no_class_are_compiled_for_what_class_cpu_states() -> None:
    file = next(file for file in library().files if file.path == "kernels/cpu/HARDWARE.toml")
    assert tomllib.loads(file.text)["hardware"]["arch"] == BASE


@pytest.mark.parametrize(
    ("arch", "own", "flags"),
    [
        (
            "x86-64-v4+avx512vnni",
            ("-march=x86-64-v4", "-mavx512vnni"),
            ("-mcpu=x86_64_v4+avx512vnni", "-fno-sanitize=undefined"),
        ),
        ("x86-64-v3", ("-march=x86-64-v3",), ("-mcpu=x86_64_v3", "-fno-sanitize=undefined")),
        ("armv8-a", ("-march=armv8-a",), ("-mcpu=generic", "-fno-sanitize=undefined")),
    ],
)
def test_each_compiler_is_told_the_target_in_its_own_words(
    arch: str, own: tuple[str, ...], flags: tuple[str, ...]
) -> None:
    assert target_flags(arch, Compiler(command=("cc",), identity="")) == own
    assert target_flags(arch, Compiler(command=("python", "-m", "ziglang", "cc"), identity="")) == flags


def test_what_is_compiled_for_is_in_the_key(tmp_path: Path) -> None:
    first, second = (
        build((Source(path="a.c", text=SOURCE),), Cache(root=tmp_path), lambda what, part: None, arch)
        for arch in (None, "native")
    )
    assert first != second
