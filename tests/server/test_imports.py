"""Commands that serve nothing do not wait for what only a server needs."""

import subprocess
import sys

HEAVY = ("fastapi", "starlette", "uvicorn", "llguidance", "prometheus_client", "numpy", "pydantic")


def test_the_command_line_starts_without_the_server() -> None:
    code = f"import sys, cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
