"""An engine for a loaded model."""

from circuit.errors import Problem, RunError
from circuit_exec.cpu import LOGITS
from circuit_exec.engine.engine import Engine
from circuit_exec.engine.interface import Description, Limits, Observer, PlanShown
from circuit_exec.model import Model, fingerprint


def open_engine(model: Model, limits: Limits, observer: Observer | None = None) -> Engine:
    """The engine; the model's program is its own from now on. RunError where the limits are none that it can keep."""
    program = model.program
    most = program.max_rows("prefill")
    if limits.max_seqs < 1 or limits.max_queue < 0:
        raise RunError(
            Problem(
                message=f"{limits.max_seqs} choices at once and a queue of {limits.max_queue} are asked for",
                fix="ask for at least one choice at once, and a queue of 0 or more",
            )
        )
    if not limits.max_seqs < limits.step_rows <= most:
        raise RunError(
            Problem(
                message=f"a step of {limits.step_rows} rows is asked for, with {limits.max_seqs} choices at once",
                fix=f"give more rows than choices, and at most the {most} rows of a prefill step",
            )
        )
    if not 1 <= limits.prompt_rows <= most:
        raise RunError(
            Problem(
                message=f"a step of {limits.prompt_rows} rows of prompts is asked for",
                fix=f"give 1 or more, and at most the {most} rows of a prefill step",
            )
        )
    if not 1 <= limits.n_pages <= program.n_pages:
        raise RunError(
            Problem(
                message=f"{limits.n_pages} KV pages are asked for, the model was loaded with {program.n_pages}",
                fix="load it with as many pages",
            )
        )
    return Engine(program, limits, describe(model, limits), observer)


def describe(model: Model, limits: Limits) -> Description:
    """What an engine of the model runs."""
    made, layout = model.planned, model.program.layout
    outputs = [output for step in layout.steps for output in step.outputs]
    shown = zip(made.digests, made.launches, strict=True)
    return Description(
        hardware_class=made.hardware_class,
        fingerprint=fingerprint(model),
        context=layout.context,
        vocabulary=next(output.columns for output in outputs if output.edge == LOGITS),
        n_threads=model.program.n_threads,
        plans=tuple(PlanShown(name=name, digest=digest, launches=count) for (name, digest), count in shown),
        certificate=made.certificate,
        limits=limits,
    )
