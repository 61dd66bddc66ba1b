"""Logits of a run against logits from elsewhere: within a tolerance, with the same most likely token."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from circuit.errors import LoadError, Problem, RunError
from circuit_exec.diff.stepping import Seen, rows_of

Logits = NDArray[np.floating]


class Agreement(Struct, frozen=True, kw_only=True):
    """`largest` is the largest absolute difference, at `position` and `column`, between `ours` and `theirs`.

    `outside` counts the positions with a logit beyond the tolerance, `first_outside` is the first of them. `argmax`
    counts the positions of the same most likely token (the lowest of equals); `other_token` is the first position
    without. A difference that is no number is infinite.
    """

    file: str
    tolerance: float
    n_positions: int
    outside: int
    first_outside: int | None
    argmax: int
    other_token: int | None
    largest: float
    position: int
    column: int
    ours: float
    theirs: float

    @property
    def holds(self) -> bool:
        """Whether every logit is within the tolerance."""
        return self.outside == 0


def read_logits(path: Path) -> Logits:
    """The array of a .npy file: [rows, vocabulary] floats."""

    def refused(message: str) -> LoadError:
        fix = "give a file that numpy.save wrote, float32 [positions, vocabulary]"
        return LoadError(Problem(message=message, fix=fix, file=str(path)))

    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except OSError as error:
        raise refused(f"the logits cannot be read: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, EOFError) as error:
        raise refused("the file is no NumPy array") from error
    if not isinstance(found, np.ndarray) or found.ndim != 2 or not np.issubdtype(found.dtype, np.floating):
        what = f"{found.dtype} {list(found.shape)}" if isinstance(found, np.ndarray) else "an archive"
        raise refused(f"the file holds {what}, not logits")
    return found


def chosen_rows(found: Logits, file: str, n_tokens: int, asked: tuple[int, ...], vocabulary: int) -> tuple[int, ...]:
    """The row of the file for each position that is asked for: the file has a row a token, or one a position asked."""
    if found.shape[1] != vocabulary:
        message = f"the file has logits of {found.shape[1]} tokens, the model has {vocabulary}"
        raise RunError(Problem(message=message, fix="give logits of the same model", file=file))
    if found.shape[0] == n_tokens:
        return asked
    if found.shape[0] == len(asked):
        return tuple(range(len(asked)))
    message = f"the file has {found.shape[0]} rows, the run {n_tokens} tokens and {len(asked)} positions to compare"
    raise RunError(Problem(message=message, fix="give a row for each token, or for each of --positions", file=file))


def agreement(
    seen: Iterator[Seen], logits: str, found: Logits, file: str, rows: dict[int, int], tolerance: float
) -> Agreement:
    """Runs to the end. `rows`: for each position that has logits, the row of the file."""
    argmax = outside = 0
    other_token: int | None = None
    first_outside: int | None = None
    worst = (-1.0, 0, 0, 0.0, 0.0)
    for step in seen:
        if not step.asked:
            continue
        edge = next(each for each in step.watched if each.name == logits)
        ours = rows_of(step, edge, step.first, step.end).view(np.float32).astype(np.float64)
        theirs = np.asarray(found[[rows[position] for position in step.asked]], np.float64)
        with np.errstate(invalid="ignore"):
            apart = np.abs(ours - theirs)
        apart[np.isnan(apart)] = np.inf
        same = ours.argmax(axis=1) == theirs.argmax(axis=1)
        argmax += int(same.sum())
        if other_token is None and not same.all():
            other_token = step.asked[int(np.argmin(same))]
        beyond = apart.max(axis=1) > tolerance
        outside += int(beyond.sum())
        if first_outside is None and beyond.any():
            first_outside = step.asked[int(np.argmax(beyond))]
        row, column = divmod(int(apart.argmax()), apart.shape[1])
        if apart[row, column] > worst[0]:
            pair = float(ours[row, column]), float(theirs[row, column])
            worst = (float(apart[row, column]), step.asked[row], column, *pair)
    return Agreement(
        file=file,
        tolerance=tolerance,
        n_positions=len(rows),
        outside=outside,
        first_outside=first_outside,
        argmax=argmax,
        other_token=other_token,
        largest=worst[0],
        position=worst[1],
        column=worst[2],
        ours=worst[3],
        theirs=worst[4],
    )
