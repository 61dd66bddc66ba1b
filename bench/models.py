"""One model file a format, requantized from the demo model by llama.cpp's own tool.

Good for speed, not for the quality of the text: the demo model has 4-bit weights already.
"""

import subprocess
import sys
from pathlib import Path

from bench.paths import FORMATS, MODELS
from bench.peers import tool
from cli.models import model_path

SHIPPED = "Q4_1"
"""The format that the demo model has: its file is used as it is."""


def model_file(format: str) -> Path:
    """The file of a format, made if it is not there."""
    path = MODELS / f"{format}.gguf"
    if path.exists():
        return path
    MODELS.mkdir(parents=True, exist_ok=True)
    demo = Path(model_path("smollm2")).resolve()
    if format == SHIPPED:
        path.symlink_to(demo)
        return path
    part = path.with_suffix(".part")
    command = [str(tool("llama-quantize", "avx2")), "--allow-requantize", str(demo), str(part), format]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        sys.exit(f"{done.stdout}\nerror: {path.name} cannot be made\n  = fix: see above")
    part.replace(path)
    return path


if __name__ == "__main__":
    for each in FORMATS:
        model_file(each)
