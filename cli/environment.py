"""No environment variable changes what met does; one that looks as if it did is refused by its name."""

import os

from circuit.errors import LoadError, Problem

PREFIX = "MET_"


def check_environment() -> None:
    """Refuses every variable with the prefix of met: somebody expects something of it."""
    names = sorted(name for name in os.environ if name.startswith(PREFIX))
    if names:
        raise LoadError(
            Problem(
                message=f"the environment variable {name} is unknown, and none changes what met does",
                fix=f"say it with an option, and `unset {name}`",
            )
            for name in names
        )
