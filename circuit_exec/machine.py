"""What a machine is called in records of measurements."""

import os
import platform
from pathlib import Path


def machine_name() -> str:
    """The processor's name and how many this process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"{_processor()}, {count} {'processor' if count == 1 else 'processors'}"


def _processor() -> str:
    """As Linux names it; elsewhere as Python does. Family and model tell processors of one name apart."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in reversed(lines))}
    if "model name" not in facts:
        return platform.machine()
    return f"{facts['model name']} (family {facts.get('cpu family', '?')}, model {facts.get('model', '?')})"
