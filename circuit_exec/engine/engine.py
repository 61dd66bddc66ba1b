"""The engine: one thread that owns the program and makes one step after the other, for all choices that run."""

import time
from collections import deque
from contextlib import suppress
from threading import Condition, Thread

from circuit.errors import Problem
from circuit_exec.cpu import LOGITS, Program
from circuit_exec.engine.batch import Batch, batch_of
from circuit_exec.engine.check import check
from circuit_exec.engine.interface import Description, Limits, Observer, OnEvent, Stats
from circuit_exec.engine.request import (
    Draining,
    Embedding,
    EmbeddingRequest,
    QueueFull,
    Reason,
    Request,
)
from circuit_exec.engine.schedule import Chunk, Scheduler
from circuit_exec.engine.sequence import Sequence
from circuit_exec.engine.take import take

RECENT = 32
"""Choices that ended last, over which the wait for one to end is estimated."""


class Ticket:
    """A request that was taken."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self.cancelled = False
        self.sequences: tuple[Sequence, ...] = ()

    def cancel(self) -> None:
        """Ends every choice that still runs or waits, with "cancelled"; its pages are free before the next step."""
        self._engine.cancel(self)


class Engine:
    """Runs requests on a program; `describe` gives `description`. `close` or `drain` ends its thread.

    The program and its states belong to the engine: nobody else makes steps while it is open.
    """

    def __init__(
        self, program: Program, limits: Limits, description: Description, observer: Observer | None = None
    ) -> None:
        self._program, self._limits, self._description, self._observer = program, limits, description, observer
        inputs = {given.name: given for given in program.layout.inputs}
        outputs = [output for step in program.layout.steps for output in step.outputs]
        self._n_ids = inputs["tokens"].hi + 1
        self._n_logits = next(output.columns for output in outputs if output.edge == LOGITS)
        self._scheduler = Scheduler(limits, program.layout, description.fingerprint)
        self._changed = Condition()  # guards what follows
        self._arrived: list[Sequence] = []
        self._left: list[Ticket] = []
        self._draining = self._closing = False
        self._n_open = 0  # choices that were taken and have not ended
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._steps = self._made = self._ended = self._last_rows = 0
        self._last_s = self._busy_s = self._host_s = 0.0
        self._ran_s = 0.0  # of the turn in progress
        self._thread = Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request | EmbeddingRequest, on_event: OnEvent) -> Ticket:
        """Takes a request; each choice ends with `Ended`. CannotFit, QueueFull, Draining where it is refused."""
        check(request, self._program.layout.context, self._n_ids, self._n_logits, self._limits)
        n = request.n if isinstance(request, Request) else 1
        ticket = Ticket(self)
        with self._changed:
            if self._draining:
                raise Draining(Problem(message="the engine is being shut down", fix="ask another one, or ask later"))
            if self._n_open + n > self._limits.max_seqs + self._limits.max_queue:
                raise self._full(n)
            sequences: list[Sequence] = []
            for choice in range(n):
                leader = sequences[0] if sequences else None
                sequences.append(Sequence(request, choice, on_event, leader))
            ticket.sequences = tuple(sequences)
            self._arrived += sequences
            self._n_open += n
            self._changed.notify_all()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Ends the choices of a ticket."""
        with self._changed:
            if not ticket.cancelled:
                ticket.cancelled = True
                self._left.append(ticket)
                self._changed.notify_all()

    def drain(self, timeout_s: float) -> bool:
        """Takes nothing more and waits for what was taken; what is not done in time ends with "cancelled".

        Gives whether all were done. The engine is closed afterwards.
        """
        with self._changed:
            self._draining = True
            done = self._changed.wait_for(lambda: self._n_open == 0, timeout_s)
        self.close()
        return done

    def close(self) -> None:
        """Ends every choice with "cancelled" and the thread. The program stays open."""
        with self._changed:
            self._draining = self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def stats(self) -> Stats:
        """What it does now."""
        with self._changed:
            scheduler = self._scheduler
            pool = scheduler.pool
            return Stats(
                queued=len(self._arrived) + len(scheduler.waiting),
                running=scheduler.running(),
                step_rows=self._last_rows,
                step_s=self._last_s,
                pages_used=pool.n_pages - pool.free(),
                pages_cached=pool.kept(),
                pages_total=pool.n_pages,
                steps=self._steps,
                prompt_tokens=scheduler.prompt_tokens,
                hit_tokens=scheduler.hit_tokens,
                made_tokens=self._made,
                ended=self._ended,
                preempted=scheduler.preempted,
                busy_s=self._busy_s,
                host_s=self._host_s,
            )

    def describe(self) -> Description:
        """What it runs."""
        return self._description

    def _full(self, n: int) -> QueueFull:
        limits = self._limits
        most = limits.max_seqs + limits.max_queue
        message = f"{self._n_open} choices run or wait, of {most} at most; {n} more are asked for"
        ends = self._ends
        wait = (ends[-1] - ends[0]) / (len(ends) - 1) * n if len(ends) > 1 else 1.0
        return QueueFull(Problem(message=message, fix="ask again later, or for fewer choices"), max(wait, 1.0))

    def _n_admissible(self) -> int:
        """Choices that run or wait: where one waits, one can run."""
        return self._scheduler.running() + len(self._scheduler.waiting)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._closing or self._arrived or self._left or self._n_admissible()):
                    self._changed.wait()
                closing = self._closing
                arrived, self._arrived = self._arrived, []
                left, self._left = self._left, []
            started = time.monotonic()
            self._ran_s = 0.0
            self._scheduler.waiting.extend(arrived)
            if closing:
                self._end_all("cancelled", None)
                return
            for ticket in left:
                for sequence in ticket.sequences:
                    self._end(sequence, "cancelled")
            try:
                self._turn(started)
            except Exception as error:  # a fault of ours: nobody is to wait for an answer that never comes
                self._end_all("error", _problem(error))
            took = time.monotonic() - started
            self._busy_s += took
            self._host_s += took - self._ran_s

    def _turn(self, now: float) -> None:
        scheduler = self._scheduler
        self._end_late(now)
        scheduler.grow()
        scheduler.admit()
        chunks = scheduler.chunks()
        making = scheduler.making
        if not making and not chunks:
            return
        n_rows = len(making) + sum(chunk.end - chunk.first for chunk in chunks)
        mode = "decode" if not chunks and n_rows <= self._program.max_rows("decode") else "prefill"
        batch = batch_of(mode, scheduler.slots, making, chunks)
        self._step(batch, making, chunks)
        self._steps += 1
        self._last_rows, self._last_s = n_rows, self._ran_s
        if self._observer is not None:
            self._observer.step(n_rows, self._ran_s)

    def _step(self, batch: Batch, making: list[Sequence], chunks: list[Chunk]) -> None:
        scheduler = self._scheduler
        before = self._program.ran_s
        self._program.run(batch.arrays)
        ids, scores, wrong = take(self._program, batch)
        self._ran_s = self._program.ran_s - before
        now = time.monotonic()
        slots = scheduler.slots
        slots.token[batch.slots] = ids
        slots.position[batch.slots] = batch.positions
        for sequence in making:
            scheduler.computed(sequence, sequence.length)
        filled = []
        for chunk in chunks:
            scheduler.computed(chunk.sequence, chunk.end)
            if chunk.end == chunk.sequence.length:
                filled.append(chunk.sequence)
                if not chunk.sequence.draws or chunk.sequence.scores is not None:
                    self._filled(chunk.sequence)
        for sequence in filled:
            if sequence.ended is None:
                scheduler.makes(sequence)
        intervals: list[float] = []
        for place, (sequence, id) in enumerate(zip(batch.drawing, ids.tolist(), strict=True)):
            if sequence.ended is not None:
                continue
            if sequence in wrong:
                self._end(sequence, "error", _problem(wrong[sequence]))
                continue
            changes = sequence.changes
            try:
                reason = sequence.accept(id, scores.get(place))
            except Exception as error:  # of a grammar, or of whoever is told
                self._end(sequence, "error", _problem(error))
                continue
            self._made += 1
            if self._observer is not None:
                if sequence.token_at is None:
                    self._observer.first_token(now - sequence.submitted)
                else:
                    intervals.append(now - sequence.token_at)
            sequence.token_at = now
            if reason is not None:
                self._end(sequence, reason)
            elif sequence.changes is not changes:
                slots.set_kind(sequence)
        if self._observer is not None and intervals:
            self._observer.next_tokens(intervals)

    def _filled(self, sequence: Sequence) -> None:
        """A prompt is computed of which more is wanted than tokens."""
        try:
            if sequence.scores is not None:
                sequence.say_scores()
            if sequence.mean is not None:
                sequence.say(Embedding(choice=sequence.choice, values=sequence.mean.value()))
        except Exception as error:  # of whoever is told
            self._end(sequence, "error", _problem(error))
            return
        if not sequence.draws:
            self._end(sequence, "length")

    def _end_late(self, now: float) -> None:
        scheduler = self._scheduler
        if (scheduler.slots.deadline < now).any():
            for sequence in scheduler.admitted():
                if scheduler.slots.deadline[sequence.slot] < now:
                    self._end(sequence, "timeout")
        for sequence in [
            each for each in scheduler.waiting if each.request.deadline is not None and each.request.deadline < now
        ]:
            self._end(sequence, "timeout")

    def _end(self, sequence: Sequence, reason: Reason, problem: Problem | None = None) -> None:
        if sequence.ended is not None:
            return
        self._scheduler.remove(sequence)
        with suppress(Exception):  # whoever is told may be gone
            sequence.end(reason, problem)
        if self._observer is not None:
            self._observer.ended(reason)
        with self._changed:
            self._n_open -= 1
            self._ended += 1
            self._ends.append(time.monotonic())
            self._changed.notify_all()

    def _end_all(self, reason: Reason, problem: Problem | None) -> None:
        for sequence in (*self._scheduler.admitted(), *self._scheduler.waiting):
            self._end(sequence, reason, problem)


def _problem(error: Exception) -> Problem:
    return Problem(message=f"the choice ended by an error: {error}", fix="look into the server's log")
