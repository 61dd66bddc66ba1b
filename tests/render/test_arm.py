"""Kernels of class neon: they compile for 64-bit Arm, and give the same bytes there, by emulation on other machines."""

import importlib.util
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from circuit.compiled import Goal
from circuit.emit.program import emit_program
from circuit.load.hardware import lanes_of, load_hardware
from circuit.pipeline import compiled
from circuit.render.c import render_kernel, render_prelude
from circuit.sigma.storage import panel_words
from circuit.uop.node import DType
from tests.cases.texts import case, tensors_of, texts, tir_of
from tests.lower.library import own_library
from tests.render.data import integers, numbers
from tests.render.harness import Buffers, expected, word
from tests.render.test_lanes import KERNELS, K, N

LIBRARY = own_library()
ARCH = dict(load_hardware(LIBRARY, "neon").arch)["aarch64"]
LANES = lanes_of(load_hardware(LIBRARY, "neon"))
FLAGS = ("-O2", "-std=gnu11", "-ffp-contract=off", "-fno-fast-math", "-Wall", "-Wextra", "-Werror", "-Wno-psabi")
HOME = platform.machine() in ("aarch64", "arm64")


def arm_compiler() -> tuple[str, ...]:
    """The words that start a compiler for 64-bit Arm; the test is skipped where there is none."""
    cross = shutil.which("aarch64-linux-gnu-gcc")
    if HOME or cross is not None:
        return ("cc" if HOME else cross or "", f"-march={ARCH}", "-static")
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("no compiler for 64-bit Arm: neither aarch64-linux-gnu-gcc nor the package ziglang is installed")
    return (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-musl", "-mcpu=generic")


def arm_runner() -> tuple[str, ...]:
    """The words that run a program of 64-bit Arm; the test is skipped where there are none."""
    if HOME:
        return ()
    found = [path for name in ("qemu-aarch64-static", "qemu-aarch64") if (path := shutil.which(name)) is not None]
    if not found:
        pytest.skip("nothing runs programs of 64-bit Arm here: qemu-user is not installed")
    return (found[0],)


def compile_c(files: dict[str, str], folder: Path, *more: str) -> Path:
    """The program, or the object, of C texts."""
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    sources = [name for name in files if name.endswith(".c")]
    command = (*arm_compiler(), *FLAGS, "-fno-sanitize=undefined", "-I.", *more, *sources)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]
    return folder / "program"


@pytest.mark.slow
def test_a_program_of_class_neon_compiles(tmp_path: Path) -> None:
    """Its rules are those that need no proof: no host of the class has recorded any."""
    goal = Goal(hardware_class="neon", rules="reference", steps=(("decode", (1, 4)), ("prefill", (1, 16))))
    checkpoint = texts(case("llama"), tensors_of(tir_of(case("llama")), "q4_1"))
    plans = compiled(checkpoint, LIBRARY, goal).plans
    sources = {source.path: source.text for source in emit_program(plans)}
    assert "f32x4 " in "".join(sources.values())
    assert "f32x8 " not in "".join(sources.values())
    compile_c({**sources, "main.c": "int main(void) { return 0; }\n"}, tmp_path, "-pthread", "-o", "program")


@pytest.mark.slow
def test_kernels_of_class_neon_give_the_bytes_of_their_definitions(tmp_path: Path) -> None:
    runner = arm_runner()
    parts = ["#include <stdio.h>", render_prelude(LANES), "struct met_team { int unused; };"]
    parts += ["void met_barrier(met_team *team) { (void)team; }"]
    parts += ["i32 met_first(met_team *team, i32 n, i32 tid, i32 nt) { (void)team, (void)n, (void)nt; return tid; }"]
    parts += ["i32 met_next(met_team *team, i32 at, i32 tid, i32 nt) { (void)team, (void)tid; return at + nt; }"]
    parts += ["i32 met_ahead(i32 others, i32 intel) { (void)intel; return others; }"]
    calls, want = list[str](), list[int]()
    for place, (format, effects) in enumerate(KERNELS.items()):
        words = [int(w) & 0xBFFFBFFF for w in integers(9, panel_words(format, N, K, 48), 0, 2**32 - 1)]
        x = numbers(10, K, 0.001)
        buffers: Buffers = {0: x, 1: [*words], 2: [0.0] * N}
        after = expected(effects, buffers, {})[2]
        want += [0x7FC00000 if v != v else word(v, DType.F32) for v in after]
        parts += [render_kernel(f"k{place}", effects, LANES)]
        bits = ", ".join(f"{word(v, DType.F32)}u" for v in x)
        parts += [f"static u32 x{place}[] = {{{bits}}}, w{place}[] = {{{', '.join(f'{w}u' for w in words)}}};"]
        calls += [f"  k{place}((void *)x{place}, (void *)w{place}, (void *)y, 0, 0, 1);"]
        calls += [f'  for (int i = 0; i < {N}; i++) printf("%u\\n", met_word(y[i]));']
    parts += [f"int main(void) {{ static f32 y[{N}];", *calls, "  return 0; }", ""]
    program = compile_c({"main.c": "\n".join(parts)}, tmp_path, "-o", "program")
    done = subprocess.run((*runner, program), capture_output=True, text=True, check=True)
    assert list(map(int, done.stdout.split())) == want
