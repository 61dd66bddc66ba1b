"""Loading a model for a command: the bar while it is compiled and baked, its notes, its end."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cli.options import Rules

if TYPE_CHECKING:
    from circuit_exec.model import Loading, Model


@contextmanager
def loading(
    model: str,
    threads: int | None,
    rules: Rules,
    policy: list[str] | None = None,
    hardware_class: str | None = None,
) -> Iterator["Loading"]:
    """The model with its weights on their way, for who does something meanwhile; they stop with the block.

    Without `hardware_class` it is the one that this host runs.
    """
    from circuit_exec.build import available_threads
    from circuit_exec.cache import user_cache
    from circuit_exec.model import begin_loading
    from cli.models import model_path
    from cli.progress import progress_bar

    path = model_path(model)
    n_threads = available_threads() if threads is None else threads
    with progress_bar() as progress:
        choices = tuple(policy or ())
        begun = begin_loading(path, user_cache(), n_threads, rules, choices, progress, hardware_class)
    try:
        yield begun
    finally:
        begun.move.end()


@contextmanager
def ready(begun: "Loading", n_pages: int | None = None) -> Iterator["Model"]:
    """The model, ready to run; its threads end with the block. Its KV pool has `n_pages`, or one full sequence."""
    model = begun.ready(n_pages)
    for note in model.notes:
        print(f"note: {note}", file=sys.stderr)
    try:
        yield model
    finally:
        model.close()


@contextmanager
def loaded(
    model: str,
    threads: int | None,
    rules: Rules,
    policy: list[str] | None = None,
    n_pages: int | None = None,
    hardware_class: str | None = None,
) -> Iterator["Model"]:
    """The model, ready to run: `loading` and `ready` in one."""
    with loading(model, threads, rules, policy, hardware_class) as begun, ready(begun, n_pages) as made:
        yield made
