"""Runs `met` as the shell does, in a process of its own, with a cache folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
ENTRY = "from cli.main import main; main()"


class Ran(Struct, frozen=True, kw_only=True):
    """What a command left: its exit code and both outputs."""

    code: int
    out: str
    err: str


def met(*arguments: str | Path, home: Path, **environment: str) -> Ran:
    """Runs one command line in the folder `home`, whose `cache` folder is the user's cache."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", ENTRY, *map(str, arguments)],
        cwd=home,
        env=settings(home) | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def settings(home: Path) -> dict[str, str]:
    """The environment of a command."""
    found = os.environ | {"PYTHONPATH": str(ROOT), "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    return found | {"NO_COLOR": "1"}


def refused(ran: Ran, *, message: str, at: str | None = None, fix: str | None = None) -> None:
    """Checks that a command ended with code 2 and one problem that says this; no traceback, nothing on stdout."""
    assert ran.code == 2, f"exit code {ran.code}\n{ran.out}\n{ran.err}"
    assert "Traceback" not in ran.err, ran.err
    assert ran.out == "", ran.out
    lines = ran.err.splitlines()
    assert [line for line in lines if line.startswith("error: ")] == [f"error: {message}"], ran.err
    if at is not None:
        assert f" --> {at}" in lines, ran.err
    assert any(line.startswith("  = fix: ") for line in lines), ran.err
    if fix is not None:
        assert f"  = fix: {fix}" in lines, ran.err


def leftovers(folder: Path) -> list[str]:
    """Every file below a folder, for checks that nothing half-written stays."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def unfinished(folder: Path) -> list[str]:
    """Every file below a cache but those that are whole as they stand: plans, answers, what a scan or a load found."""
    whole = ("met/planned/", "met/exact/", "met/answers/", "met/library/")
    return [name for name in leftovers(folder) if not name.startswith(whole)]
