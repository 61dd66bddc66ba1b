"""Builds llama.cpp, once for each instruction set, with its own tools, its library and `bench/llama_worker.c`.

`python -m bench.peers --server` builds its HTTP server, for the load comparison.

The source is the one that the sdist of llama-cpp-python brings along; cmake and ninja come from the peers' own
environment, `.venv-bench`. What is built and up to date is left alone: a build folder ends with a file of its settings.
"""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from bench.paths import BENCH, BUILD, ISAS, PEER_PYTHON, replaced

RELEASE = "0.3.36"
SDIST = f"llama_cpp_python-{RELEASE}"
SOURCE = BUILD / SDIST / "vendor" / "llama.cpp"
WORKER = "llama_worker"
TOOLS = ("llama-bench", "llama-batched-bench", "llama-quantize")
SERVER = "llama-server"
"""Its HTTP server, which the load comparison alone needs and which takes longest to compile."""
COMMON = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DGGML_OPENMP=ON",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_BUILD_SERVER=ON",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_OPENSSL=OFF",
)
OWN = {
    "avx2": (
        "-DGGML_NATIVE=OFF",
        *(f"-DGGML_{name}=ON" for name in ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")),
    ),
    "native": ("-DGGML_NATIVE=ON",),
}
LIBRARIES = ("src/libllama.a", "ggml/src/libggml.a", "ggml/src/libggml-cpu.a", "ggml/src/libggml-base.a")


def built(isa: str) -> Path:
    """The folder of the build for an instruction set."""
    return BUILD / isa


def tool(name: str, isa: str) -> Path:
    """One of llama.cpp's own programs."""
    return built(isa) / "bin" / name


def build_peers() -> None:
    """Builds what is missing. Takes long the first time: 10 to 30 minutes on two processors."""
    for isa in ISAS:
        settings = _settings(isa)
        stamp = built(isa) / "settings.json"
        if stamp.exists() and stamp.read_text(encoding="utf-8") == settings:
            continue
        _fetch()
        print(f"building llama.cpp of {SDIST} for {isa}", flush=True)
        _build(isa)
        replaced(stamp, settings)


def build_server() -> None:
    """Builds the server for this processor, if it is missing."""
    isa = "native"
    settings = json.dumps({"source": SDIST, "options": [*COMMON, *OWN[isa]]}, indent=1) + "\n"
    stamp = built(isa) / "server.json"
    if stamp.exists() and stamp.read_text(encoding="utf-8") == settings:
        return
    _fetch()
    print(f"building {SERVER} of {SDIST} for {isa}", flush=True)
    _make(isa, (SERVER,))
    replaced(stamp, settings)


def _settings(isa: str) -> str:
    worker = (BENCH / f"{WORKER}.c").read_text(encoding="utf-8")
    return json.dumps({"source": SDIST, "options": [*COMMON, *OWN[isa]], "worker": worker}, indent=1) + "\n"


def _fetch() -> None:
    if SOURCE.exists():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    pip = (str(PEER_PYTHON), "-m", "pip", "download", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--no-binary", ":all:", "--no-deps", "--dest", str(BUILD), f"llama-cpp-python=={RELEASE}")
    unpacked = BUILD / "unpacked"
    with tarfile.open(BUILD / f"{SDIST}.tar.gz") as archive:
        archive.extractall(unpacked, filter="data")
    (unpacked / SDIST).replace(BUILD / SDIST)
    unpacked.rmdir()


def _make(isa: str, targets: tuple[str, ...]) -> None:
    tools = PEER_PYTHON.parent
    cmake, folder = str(tools / "cmake"), built(isa)
    ninja = f"-DCMAKE_MAKE_PROGRAM={tools / 'ninja'}"
    _run(cmake, "-S", str(SOURCE), "-B", str(folder), "-G", "Ninja", ninja, *COMMON, *OWN[isa])
    _run(cmake, "--build", str(folder), "--parallel", str(os.cpu_count() or 1), "--target", *targets)


def _build(isa: str) -> None:
    _make(isa, TOOLS)
    folder = built(isa)
    compiled = folder / f"{WORKER}.o"
    includes = (f"-I{SOURCE / 'include'}", f"-I{SOURCE / 'ggml' / 'include'}")
    _run("cc", "-O2", "-Wall", "-Wextra", *includes, "-c", str(BENCH / f"{WORKER}.c"), "-o", str(compiled))
    libraries = (str(folder / library) for library in LIBRARIES)
    _run("c++", str(compiled), *libraries, "-fopenmp", "-pthread", "-ldl", "-lm", "-o", str(folder / WORKER))


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    except FileNotFoundError:
        sys.exit(f"error: {command[0]} is not there\n  = fix: build by `make bench`, which installs the peers' tools")
    if done.returncode != 0:
        said = "\n".join(done.stdout.splitlines()[-20:])
        sys.exit(f"{said}\nerror: `{' '.join(command)}` failed\n  = fix: see its message above")


if __name__ == "__main__":
    build_server() if sys.argv[1:] == ["--server"] else build_peers()
