"""What goes wrong, as data: each problem names its file, line and fix; all of them are reported at once."""

from collections.abc import Iterable

from msgspec import Struct


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with an input.

    `message` is lower-case and has no final dot; `fix` says what to do, as a command or an edit.
    `file` is the path as the user gave it; `line` counts from 1; `excerpt` is the line's text.
    """

    message: str
    fix: str
    file: str | None = None
    line: int | None = None
    excerpt: str | None = None


class MetError(Exception):
    """Base of everything a user can cause; never raised itself. The CLI prints it without a traceback."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        found = (problems,) if isinstance(problems, Problem) else tuple(problems)
        assert found, "an error needs at least one problem"
        self.problems: tuple[Problem, ...] = tuple(sorted(found, key=_place))
        super().__init__(render(self.problems))


class LoadError(MetError):
    """An input file is malformed, incomplete or contradicts another one."""


class PlanError(MetError):
    """A valid input cannot be planned as asked."""


class RunError(MetError):
    """A finished plan cannot run here: no compiler, no space, a damaged cache, a prompt that is too long."""


class PolicyError(MetError):
    """A policy refuses the plan."""

    exit_code = 3


def render(problems: Iterable[Problem]) -> str:
    """The text a user sees, one block a problem."""
    return "\n".join(_block(problem) for problem in problems)


def _block(problem: Problem) -> str:
    lines = [f"error: {problem.message}"]
    if problem.file is not None:
        at = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        lines.append(f" --> {at}")
    if problem.excerpt is not None:
        lines.append(f"  | {problem.excerpt}")
    lines.append(f"  = fix: {problem.fix}")
    return "\n".join(lines)


def _place(problem: Problem) -> tuple[str, int]:
    return (problem.file or "", problem.line or 0)
