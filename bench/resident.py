"""What running a model costs beside the time of its tokens: memory, the compiler, the start.

python -m bench.resident
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from msgspec import Struct, to_builtins

from bench import ceilings
from bench.models import model_file
from bench.paths import FORMATS
from circuit_exec.build import available_threads, build
from circuit_exec.cache import Cache, user_cache
from circuit_exec.checkpoint.open import open_checkpoint
from circuit_exec.model import plan_set

PROMPT = "What is photosynthesis?"
N_TOKENS = 64
MEMORY_BESIDE = 150e6
COMPILE_S = 8.0
FIRST_TOKEN_S = 0.7
MET = (sys.executable, "-c", "from cli.main import main; main()")


class Cost(Struct, frozen=True, kw_only=True):
    """Of one model file, in bytes and seconds. `resident` is the most that a run held, mapped weights included;
    `allowed` is the file, the keys and values, and MEMORY_BESIDE. `first_token` is the time from the start of the
    process to its first token, with everything in the cache; `compiled` that of the C compiler, with an empty cache.
    """

    format: str
    resident: int
    allowed: float
    first_token: float
    compiled: float

    def missed(self) -> list[str]:
        """What is not as it should be."""
        held = {
            "memory": self.resident <= self.allowed,
            "start": self.first_token <= FIRST_TOKEN_S,
            "compile": self.compiled <= COMPILE_S,
        }
        return [name for name, holds in held.items() if not holds]


def main(arguments: list[str]) -> int:
    """Gives 1 if a cost is above what is allowed."""
    parser = argparse.ArgumentParser(prog="bench.resident", description=__doc__)
    parser.add_argument("--formats", type=lambda text: tuple(text.split(",")), default=FORMATS, metavar="A,B")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    costs = [cost(format) for format in options.formats]
    print(json.dumps([to_builtins(each) for each in costs], indent=1) if options.json else "\n".join(map(_line, costs)))
    return 1 if any(each.missed() for each in costs) else 0


def cost(format: str) -> Cost:
    """Measures one file. The first run fills the cache and does not count."""
    path = model_file(format)
    _run(path, 1)
    starts = [_run(path, 1)[0] for _ in range(5)]
    sizes = ceilings.sizes(path)
    n_positions = N_TOKENS + 64  # the prompt and its template have fewer than 64
    kv = 2 * sizes.n_layers * sizes.kv_width * ceilings.KV_BYTES * n_positions
    return Cost(
        format=format,
        resident=_run(path, N_TOKENS)[1],
        allowed=path.stat().st_size + kv + MEMORY_BESIDE,
        first_token=statistics.median(starts),
        compiled=_compile_s(path),
    )


def _run(path: Path, n: int) -> tuple[float, int]:
    """Seconds until the first word of the answer is out, and the most bytes that the process held."""
    command = [*MET, "run", str(path), PROMPT, "-n", str(n)]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        first = time.perf_counter() - started
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"error: `{' '.join(command)}` ended with code {process.returncode}\n  = fix: run it to see why")
    return first, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _compile_s(path: Path) -> float:
    """Seconds that the C compiler takes for the model's program."""
    made = plan_set(open_checkpoint(str(path)), user_cache(), "all", ())
    with tempfile.TemporaryDirectory(prefix="met-") as folder:
        started = time.perf_counter()
        build(made.sources, Cache(root=Path(folder)), lambda what, part: None, made.arch)
        return time.perf_counter() - started


def _line(cost: Cost) -> str:
    missed = cost.missed()
    return (
        f"{cost.format:>5}: resident {cost.resident / 1e6:.0f} of {cost.allowed / 1e6:.0f} MB; first token after "
        f"{cost.first_token:.2f} of {FIRST_TOKEN_S} s; compiled in {cost.compiled:.1f} of {COMPILE_S:.0f} s "
        f"on {available_threads()} processors{': too much: ' if missed else ''}{', '.join(missed)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
