"""Which number of sequences of which length fits a device, by our rule and by the rules of other engines."""

from msgspec import Struct
from msgspec.structs import replace

from circuit.errors import PlanError, Problem
from circuit.load.devices import Device
from circuit.load.engines import Engine
from circuit.report.memory import Memory, longest_context, most_sequences, needed
from circuit.sigma.page import PAGE


class AskedFit(Struct, frozen=True, kw_only=True):
    """A number of sequences and a length that must fit; where one is None, 1 sequence, and 4,096 positions or the
    model's context.
    """

    sequences: int | None = None
    context: int | None = None


CONTEXTS = (2048, 4096, 8192, 32768, 131072)
SEQUENCES = (1, 4, 16, 64, 128, 256)


class Fit(Struct, frozen=True, kw_only=True):
    """`usable` bytes; `cells` are (sequences, context, bytes needed, whether it fits); `most` are (context, the most
    sequences); `longest` are (sequences, the longest context); `engines` are (rule, the most sequences of
    `engine_context` positions within its part); `kv` are (value of the policy kv, bytes of a position, the
    most sequences of `engine_context` positions).
    """

    usable: int
    reserved: int
    cells: tuple[tuple[int, int, int, bool], ...]
    most: tuple[tuple[int, int], ...]
    longest: tuple[tuple[int, int], ...]
    engine_context: int
    engines: tuple[tuple[Engine, int], ...]
    kv: tuple[tuple[str, int, int], ...]


def check_asked(
    held: Memory, device: Device, reserved: int, asked: AskedFit, stated: tuple[str | None, int | None]
) -> None:
    """A PlanError where so many sequences of that length do not fit the device, or the model's context.

    `stated`: file and line of the model's context.
    """
    sequences, context = asked.sequences or 1, asked.context or min(4096, held.context)
    if context > held.context:
        message = f"{context:,} positions are asked for, the model has {held.context:,}"
        fix = f"ask for at most --context {held.context}"
        raise PlanError(Problem(message=message, fix=fix, file=stated[0], line=stated[1]))
    usable = int(device.memory_bytes.value) - reserved
    n_bytes = needed(held, sequences, context)
    if n_bytes > usable:
        message = f"{sequences:,} x {context:,} positions need {n_bytes:,} bytes, {device.id} has {usable:,}"
        most, longest = most_sequences(held, usable, context), longest_context(held, usable, sequences)
        fits = [f"--sequences {most}"] * bool(most) + [f"--context {longest}"] * bool(longest)
        fix = f"ask for {' or '.join(fits)}" if fits else "choose a device with more memory: not even one position fits"
        raise PlanError(Problem(message=message, fix=fix, file=device.file, line=device.line))


def fit(held: Memory, memory_bytes: int, engines: tuple[Engine, ...], reserved: int = 0) -> Fit:
    """What fits a device. Contexts beyond the model's are left out."""
    usable = memory_bytes - reserved
    contexts = tuple(context for context in CONTEXTS if context <= held.context) or (held.context,)
    engine_context = min(4096, held.context)
    return Fit(
        usable=usable,
        reserved=reserved,
        cells=tuple(
            (n, context, needed(held, n, context), needed(held, n, context) <= usable)
            for n in SEQUENCES
            for context in contexts
        ),
        most=tuple((context, most_sequences(held, usable, context)) for context in contexts),
        longest=tuple((n, longest_context(held, usable, n)) for n in SEQUENCES),
        engine_context=engine_context,
        engines=tuple((each, most_sequences(held, int(memory_bytes * each.part), engine_context)) for each in engines),
        kv=tuple(
            (format, n // PAGE, most_sequences(replace(held, page_bytes=n), usable, engine_context))
            for format, n in held.page_bytes_in
        ),
    )
