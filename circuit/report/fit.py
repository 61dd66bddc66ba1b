"""Which number of sequences of which length fits a device, by our rule and by the rules of other engines."""

from dataclasses import dataclass
from fractions import Fraction

from circuit.report.memory import Memory, longest_context, most_sequences, needed, weight_bytes

CONTEXTS = (2048, 4096, 8192, 32768, 131072)
SEQUENCES = (1, 4, 16, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How an engine decides how much of a device's memory it uses: a part of all of it."""

    engine: str
    part: Fraction
    says: str
    source: str


RULES = (
    Rule(
        engine="vLLM",
        part=Fraction(9, 10),
        says="weights, the peak of activations and KV within gpu_memory_utilization of the memory",
        source="vLLM engine arguments, --gpu-memory-utilization, default 0.9",
    ),
    Rule(
        engine="SGLang",
        part=Fraction(88, 100),
        says="weights and KV within mem_fraction_static of the memory; activations in what is left",
        source="SGLang server arguments, --mem-fraction-static; 0.88 where nothing else lowers it",
    ),
    Rule(
        engine="llama.cpp",
        part=Fraction(1),
        says="no part: weights, compute buffers and KV of the whole context are allocated at start",
        source="llama.cpp server, --ctx-size and --parallel: the context is shared by the slots",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """`usable` bytes; `cells` are (sequences, context, bytes needed, whether it fits); `most` are (context, the most
    sequences); `longest` are (sequences, the longest context); `rules` are (rule, the most sequences of `rule_context`
    positions with KV in the rest of its part).
    """

    usable: int
    reserved: int
    cells: tuple[tuple[int, int, int, bool], ...]
    most: tuple[tuple[int, int], ...]
    longest: tuple[tuple[int, int], ...]
    rule_context: int
    rules: tuple[tuple[Rule, int], ...]


def fit(held: Memory, memory_bytes: int, reserved: int = 0) -> Fit:
    """What fits a device. Contexts beyond the model's are left out."""
    usable = memory_bytes - reserved
    contexts = tuple(context for context in CONTEXTS if context <= held.context) or (held.context,)
    rule_context = min(4096, held.context)
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
        rule_context=rule_context,
        rules=tuple((rule, most_sequences(held, int(memory_bytes * rule.part), rule_context)) for rule in RULES),
    )


def weights_fit(held: Memory, found: Fit) -> bool:
    """Whether the weights alone fit."""
    return weight_bytes(held) <= found.usable
