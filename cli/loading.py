"""Loading a model for a command: the bar while it is compiled and baked, its notes, its end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.options import Rules

if TYPE_CHECKING:
    from circuit_exec.model import Model


@contextmanager
def loaded(
    model: str,
    threads: int | None,
    rules: Rules,
    policy: list[str] | None = None,
    n_pages: int | None = None,
    hardware_class: str | None = None,
) -> Iterator["Model"]:
    """The model, ready to run; its threads end with the block. Its KV pool has `n_pages`, or one full sequence.

    Without `hardware_class` it is the one that this host runs.
    """
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.model import load_model
    from cli.models import model_path
    from cli.progress import progress_bar

    path = model_path(model)
    n_threads = available_threads() if threads is None else threads
    with progress_bar() as progress:
        choices = tuple(policy or ())
        ready = load_model(
            path, user_cache(), n_threads, rules, choices, progress, n_pages=n_pages, hardware_class=hardware_class
        )
    for note in ready.notes:
        print(f"note: {note}", file=sys.stderr)
    try:
        yield ready
    finally:
        ready.close()
