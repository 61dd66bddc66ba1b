"""What the compiler is given: the files under kernels/, and the texts of one checkpoint."""

from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from msgspec import Struct

from circuit.load.source import Length
from circuit.text import Source

T = TypeVar("T")


def _nothing(what: Hashable) -> None:
    """What is kept where nobody keeps anything."""


class Library:
    """The data files of the project (TOML), sorted by path; paths are as the reader knows them, with `/`.

    `made` is what was made of them so far, by what it is: see `once`. `kept` gives what was made of the same files
    before, if anything was, in a tuple of one.
    """

    def __init__(self, files: tuple[Source, ...], kept: Callable[[Hashable], tuple[object] | None] = _nothing) -> None:
        self.files = files
        self.kept = kept
        self.made: dict[Hashable, object] = {}


def once(library: Library, what: Hashable, make: Callable[[], T]) -> T:
    """What `make` makes of the library, made once. `what` names it, with all that it depends on besides the library."""
    if what not in library.made:
        found = library.kept(what)
        library.made[what] = make() if found is None else found[0]
    return cast(T, library.made[what])


class TensorInfo(Struct, frozen=True, kw_only=True):
    """One tensor of a checkpoint. `shape` is row-major: (outputs, inputs) for a projection. `format` as in formats.py;
    a storage type that is not there keeps its own name and is refused when a node reads the tensor. `exact_bf16`: every
    value of an f32 tensor is known to be one of bf16, so it may be baked as that."""

    name: str
    format: str
    shape: tuple[int, ...]
    exact_bf16: bool = False


class HfTexts(Struct, frozen=True, kw_only=True):
    """A directory in the Hugging Face layout. `tensors` is None when only the config is there: planning needs no more.

    `quantization` is hf_quant_config.json.
    """

    config: Source
    generation_config: Source | None = None
    quantization: Source | None = None
    tensors: tuple[TensorInfo, ...] | None = None


GgufValue = bool | int | float | str | tuple[bool | int | float | str, ...] | Length


class GgufKey(Struct, frozen=True, kw_only=True):
    """One metadata entry. `type` is the file's type name: u32, f32, string, array of string, ... Of a long array,
    `value` is its length alone."""

    key: str
    type: str
    value: GgufValue


class GgufTexts(Struct, frozen=True, kw_only=True):
    """One GGUF file. `rope_factors` are the values of the tensor `rope_freqs.weight`, None where there is none."""

    path: str
    metadata: tuple[GgufKey, ...]
    tensors: tuple[TensorInfo, ...]
    rope_factors: tuple[float, ...] | None = None


CheckpointTexts = HfTexts | GgufTexts


def files_under(library: Library, folder: str, suffix: str) -> tuple[Source, ...]:
    """The files directly in a folder whose path ends with `folder`, with names ending in `suffix`, in path order."""
    found = []
    for source in library.files:
        parent, _, name = source.path.replace("\\", "/").rpartition("/")
        if name.endswith(suffix) and (parent == folder or parent.endswith("/" + folder)):
            found.append(source)
    return tuple(sorted(found, key=lambda source: source.path))
