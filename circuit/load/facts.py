"""What a checkpoint says, in our own words: the point in parameter space that a circuit is instantiated at."""

from msgspec import Struct

from circuit.load.precision import Quantization

FactValue = bool | int | float | str | tuple[float, ...]


class Naming(Struct, frozen=True, kw_only=True):
    """How the checkpoint names and stores what a circuit's bindings ask for.

    `names`: binding -> name in the file (`{L}`, `{i}`), empty where they are the same. `unpermute`: bindings whose rows
    are stored in interleaved order, with the dim that counts their heads.
    """

    names: tuple[tuple[str, str], ...] = ()
    unpermute: tuple[tuple[str, str], ...] = ()


class Facts(Struct, frozen=True, kw_only=True):
    """One model. Dims and params are sorted by name; params that are floats are exactly float32.

    `format` is the storage format that the config states for the weights, or "file" where each tensor states its own.
    `quantization` says which projections are not stored so.
    `layers` is the kind of each layer. `run` is what only the executor reads: end, start and padding tokens.
    """

    arch: str
    context: int
    format: str
    dims: tuple[tuple[str, int], ...]
    params: tuple[tuple[str, FactValue], ...]
    layers: tuple[str, ...]
    run: tuple[tuple[str, tuple[int, ...]], ...]
    naming: Naming
    quantization: Quantization | None = None


def run_fact(facts: Facts, name: str) -> tuple[int, ...]:
    """The token ids of `eos`, `bos` or `pad`; empty where the checkpoint names none."""
    return next((ids for key, ids in facts.run if key == name), ())
