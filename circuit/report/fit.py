"""Which number of sequences of which length fits a device, by our rule and by the rules of other engines."""

from dataclasses import dataclass

from circuit.load.engines import Engine
from circuit.report.memory import Memory, longest_context, most_sequences, needed

CONTEXTS = (2048, 4096, 8192, 32768, 131072)
SEQUENCES = (1, 4, 16, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`usable` bytes; `cells` are (sequences, context, bytes needed, whether it fits); `most` are (context, the most
    sequences); `longest` are (sequences, the longest context); `engines` are (rule, the most sequences of
    `engine_context` positions within its part).
    """

    usable: int
    reserved: int
    cells: tuple[tuple[int, int, int, bool], ...]
    most: tuple[tuple[int, int], ...]
    longest: tuple[tuple[int, int], ...]
    engine_context: int
    engines: tuple[tuple[Engine, int], ...]


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
    )
