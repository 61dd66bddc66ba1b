"""What the figures belong to: the machine, and the versions of all that takes part."""

import hashlib
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from bench.paths import PEER_PYTHON, ROOT
from bench.peers import RELEASE, SOURCE
from bench.results import Setting
from circuit_exec.host import processor_features

SOURCES = ("circuit", "circuit_exec", "kernels", "recipes")
TOLD = ("avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile")
"""Features of the processor that engines use."""


def setting(n_threads: int) -> Setting:
    """Of this machine."""
    cpuinfo = _fields(Path("/proc/cpuinfo"))
    return Setting(
        machine={
            "processor": cpuinfo.get("model name", platform.processor()),
            "family": f"{cpuinfo.get('cpu family', '?')} model {cpuinfo.get('model', '?')}",
            "features": " ".join(name for name in TOLD if name in processor_features()),
            "processors": str(os.cpu_count()),
            "memory": _fields(Path("/proc/meminfo")).get("MemTotal", "?"),
            "system": f"{platform.system()} {platform.machine()}",
        },
        versions={
            "met": f"{version('met-circuit')}+{_source_hash()}",
            "python": platform.python_version(),
            "llama-cpp-python": RELEASE,
            "llama.cpp": _llama_version(),
            **_peer_versions(),
            "compiler": _first_line("cc", "--version"),
        },
        threads=n_threads,
    )


def _fields(path: Path) -> dict[str, str]:
    """`name : value` lines, the first of each name."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _source_hash() -> str:
    """Of all that decides what met runs."""
    digest = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def _llama_version() -> str:
    """The version that the source states of itself."""
    lines = (SOURCE / "ggml" / "CMakeLists.txt").read_text(encoding="utf-8").splitlines()
    parts = dict(
        line[4:-1].split(None, 1) for line in lines if line.startswith("set(GGML_VERSION_") and '"' not in line
    )
    return "ggml " + ".".join(parts[f"GGML_VERSION_{part}"] for part in ("MAJOR", "MINOR", "PATCH"))


def _peer_versions() -> dict[str, str]:
    code = "from importlib.metadata import version as v; print(v('torch'), v('transformers'))"
    torch, transformers = _first_line(str(PEER_PYTHON), "-c", code).split()
    return {"torch": torch, "transformers": transformers}


def _first_line(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()[0]
