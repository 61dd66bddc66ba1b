"""Where the comparison keeps what it builds, and what it compares: nothing of it is in the packages."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
PEER_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
MODELS = BUILD / "models"

ISAS = ("avx2", "native")
"""What the contestants are compiled for: x86-64 with AVX2, FMA and F16C; and all that this processor has."""

FORMATS = ("F32", "F16", "BF16", "Q8_0", "Q4_1", "Q4_0")


def replaced(path: Path, text: str) -> None:
    """Writes a file so that a reader, or an interrupt, finds the old one or the new one whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
