"""The entry of the machine at hand, which `--hardware this` reads and `met calibrate` writes."""

from pathlib import Path

import platformdirs

from circuit.errors import Problem, RunError
from circuit.text import Source


def own_device_path() -> Path:
    """Where the entry of this machine is kept."""
    return platformdirs.user_data_path("met") / "devices.toml"


def own_device(path: Path) -> Source:
    """The entry of this machine; a machine that was not measured is refused."""
    try:
        return Source(path=str(path), text=path.read_text(encoding="utf-8"))
    except OSError:
        message = "this machine has not been measured, so it is no device yet"
        raise RunError(Problem(message=message, fix="run `met calibrate`, or name another device")) from None
