"""Progress of slow work on stderr: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, float], None]


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Gives the function that is told what is being done and how much of it is: 0.0 to 1.0. One bar a kind of work."""
    if not sys.stderr.isatty():
        yield lambda what, fraction: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, TaskID] = {}

    def show(what: str, fraction: float) -> None:
        if what not in tasks:
            bar.start()
            tasks[what] = bar.add_task(what, total=None)
        bar.update(tasks[what], total=1.0 if fraction > 0 else None, completed=fraction)

    try:
        yield show
    finally:
        bar.stop()
