"""Joules of the processor packages, where Linux shows them to this user (RAPL)."""

from pathlib import Path

from msgspec import Struct

POWERCAP = Path("/sys/class/powercap")


class Meter(Struct, frozen=True, kw_only=True):
    """The counters of all packages; each starts again from 0 after its `ranges`, in microjoules."""

    files: tuple[Path, ...]
    ranges: tuple[int, ...]

    def read(self) -> tuple[int, ...]:
        """Microjoules of each package."""
        return tuple(int(file.read_text("ascii")) for file in self.files)

    def joules(self, before: tuple[int, ...], after: tuple[int, ...]) -> float:
        """What was used between two reads less than one round of a counter apart."""
        spans = zip(before, after, self.ranges, strict=True)
        return sum((b - a) % (most + 1) for a, b, most in spans) / 1e6


def meter(folder: Path = POWERCAP) -> Meter | str:
    """The meter of this machine, or why it cannot be read."""
    packages = sorted(folder.glob("intel-rapl:?"))
    if not packages:
        return f"there is no {folder.name}/intel-rapl:0"
    files = tuple(package / "energy_uj" for package in packages)
    try:
        found = Meter(files=files, ranges=tuple(int((p / "max_energy_range_uj").read_text("ascii")) for p in packages))
        found.read()
    except (OSError, ValueError) as error:
        return f"{error.strerror if isinstance(error, OSError) else error}".lower()
    return found
