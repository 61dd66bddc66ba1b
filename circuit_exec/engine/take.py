"""What a step left in the arena, as tokens, scores and hidden rows of the choices."""

import numpy as np
from numpy.typing import NDArray

from circuit.emit.runtime import GREEDY, HIDDEN, SAMPLE, SCORE
from circuit_exec.cpu import Program
from circuit_exec.engine.batch import Batch
from circuit_exec.engine.mean import Mean
from circuit_exec.engine.request import Request, Scored
from circuit_exec.engine.scores import scored
from circuit_exec.engine.sequence import Sequence

NOT_ALLOWED = "no token is allowed to come next"


def take(program: Program, batch: Batch) -> tuple[NDArray[np.int32], dict[int, Scored], dict[Sequence, Exception]]:
    """The token of each choice that takes one, the scores of those that want them by place, and what went wrong.

    Prompts are scored and hidden rows added up on the way. Logits are scored as the model gives them, before they are
    changed.
    """
    wrong: dict[Sequence, Exception] = {}
    logits = program.logits()
    rows = {place: logits[place] for place, each in enumerate(batch.drawing) if each.n_logprobs is not None}
    _score_prompts(program, batch)
    _add_hidden(program, batch)
    first, end = batch.changed
    if first < end:
        for place in range(first, end):
            sequence = batch.drawing[place]
            if place in rows:
                rows[place] = rows[place].copy()
            assert sequence.changes is not None
            try:
                left = sequence.changes.apply(logits[place])
            except Exception as error:  # of a grammar, which is not ours
                wrong[sequence] = error
            else:
                if not left:
                    wrong[sequence] = ValueError(NOT_ALLOWED)
        program.again(batch.again, batch.again_sampler)
    n = len(batch.drawing)
    ids = np.empty(n, np.int32)
    if batch.n_greedy:
        ids[: batch.n_greedy] = program.drawn(GREEDY)[: batch.n_greedy]
    if batch.n_greedy < n:
        ids[batch.n_greedy :] = program.drawn(SAMPLE)[batch.n_greedy : n]
    log_sums = program.left(SCORE) if rows else None
    found: dict[int, Scored] = {}
    for place, row in rows.items():
        assert log_sums is not None
        found[place] = scored(row, log_sums[place], int(ids[place]), batch.drawing[place].n_logprobs or 0)
    return ids, found, wrong


def _score_prompts(program: Program, batch: Batch) -> None:
    for part in batch.scored:
        sequence, scores = part.sequence, part.sequence.scores
        assert scores is not None
        assert isinstance(sequence.request, Request)
        logits, log_sums = program.logits(), program.left(SCORE)
        ids = sequence.tokens(part.first + 1, part.end + 1).tolist()
        for row, id in enumerate(ids, start=part.at):
            scores.append(scored(logits[row], log_sums[row], id, sequence.request.n_logprobs or 0))


def _add_hidden(program: Program, batch: Batch) -> None:
    for part in batch.hidden:
        hidden = program.left(HIDDEN)
        if part.sequence.mean is None:
            part.sequence.mean = Mean(hidden.shape[1])
        part.sequence.mean.add(hidden[part.at : part.at + part.end - part.first])
