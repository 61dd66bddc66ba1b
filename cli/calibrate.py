"""`met calibrate`: measures this machine, so that plans can be made for it."""

import json
from datetime import date
from pathlib import Path
from typing import Annotated

import typer
from msgspec import to_builtins

from cli.options import JsonOption, ThreadsOption

EXAMPLES = """Examples:

\b
  met calibrate
  met calibrate --threads 1 --out here.toml
  met circuit plan smollm2 --hardware this
"""


def calibrate(
    threads: ThreadsOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", show_default="the user's data", help="Where to write.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure this machine's memory bandwidth, rates and launch cost, and keep them as the device `this`."""
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.calibrate import calibrate as measure
    from circuit_exec.calibrate import write_device
    from circuit_exec.own_device import own_device_path
    from cli.progress import progress_bar

    path = out or own_device_path()
    with progress_bar() as progress:
        found = measure(threads or available_threads(), date.today().isoformat(), user_cache(), progress)
    write_device(found, path)
    if as_json:
        print(json.dumps(to_builtins(found), indent=1))
        return
    for reading, unit, scale in zip(
        found.readings, ("GB/s", "GFLOP/s", "Gop/s", "us"), (1e9, 1e9, 1e9, 1e-6), strict=True
    ):
        low, high = reading.low / scale, reading.high / scale
        print(f"{reading.name}: {reading.value / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
    print(f"written to {path}")
