"""A case read as far as a checkpoint decides a plan: facts, instance, and the part digests that follow from them."""

import json
from collections.abc import Iterator

from msgspec import Struct

from circuit.errors import LoadError
from circuit.front.blocks import blocks
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.config_map import ConfigMap, KeySpec, key_spec, load_config_map
from circuit.load.inputs import CheckpointTexts, GgufKey, GgufTexts, HfTexts, TensorInfo
from circuit.load.ledger import Ledger
from circuit.load.source import Plain, path_text
from circuit.plan.digest import digest_of, instance_parts, run_part
from circuit.text import Source
from circuit.tir.instantiate import instantiate
from circuit.tir.ir import Tir
from tests.cases.texts import library
from tests.mutation.cases import Case, Keys

Path = tuple[str, ...]


class Read(Struct, frozen=True, kw_only=True):
    """`digest` is over all parts of a plan's digest that a checkpoint decides; the others follow from these."""

    tir: Tir
    run: tuple[tuple[str, tuple[int, ...]], ...]
    ledger: Ledger
    digest: str


def read(case: Case) -> Read:
    """What the compiler makes of it; LoadError where it is refused."""
    facts, ledger = map_config(texts(case), library())
    tir = instantiate(blocks(load_circuit(library(), facts.arch), facts))
    parts = instance_parts(tir) | {"run": run_part(facts.run)}
    return Read(tir=tir, run=facts.run, ledger=ledger, digest=digest_of(parts))


def digest(case: Case) -> str | None:
    """The digest, or None where the case is refused."""
    try:
        return read(case).digest
    except LoadError:
        return None


def texts(case: Case) -> CheckpointTexts:
    """The checkpoint, without tensors but those whose presence says something."""
    if "gguf" in case.files:
        entries = tuple(
            GgufKey(key=key, type="any", value=tuple(value) if isinstance(value, list) else value)  # type: ignore[arg-type]
            for key, value in case.files["gguf"].items()
        )
        tensors = (TensorInfo(name="token_embd.weight", format="f32", shape=(1,)),)
        return GgufTexts(path="m.gguf", metadata=entries, tensors=tensors)
    generation = case.files.get("generation_config.json")
    return HfTexts(
        config=_source("config.json", case.files["config.json"]),
        generation_config=None if generation is None else _source("generation_config.json", generation),
    )


def map_of(file: str, model_type: str) -> ConfigMap:
    """The config map that reads a file of a model type."""
    return load_config_map(library(), "gguf" if file == "gguf" else "config.json", model_type)


def specs(file: str, model_type: str) -> dict[str, KeySpec]:
    """Every key that the file may have; those in objects as `object.key`, whatever the object is called in the file."""
    found = map_of(file, model_type)
    if file == "generation_config.json":
        return dict(found.generation)
    inside = {f"{name}.{key}": spec for name, keys in found.objects.items() for key, spec in keys.items()}
    return {key: spec for key, spec in found.keys.items() if spec.object is None} | inside


def keys_in(case: Case, file: str) -> Iterator[tuple[Path, str, Plain]]:
    """Every key of a file: its path, its name among `specs`, its value."""
    keys = map_of(file, case.model_type)
    top = keys.generation if file == "generation_config.json" else keys.keys
    for name, value in case.files[file].items():
        spec = key_spec(top, name)
        assert spec is not None, f"{case.name}: {name} is unknown"
        if spec.object is None:
            yield (name,), spec.name, value
        else:
            assert isinstance(value, dict), name
            yield from (((name, inner), f"{spec.object}.{inner}", each) for inner, each in value.items())


def kind_of(ledger: Ledger, case: Case, file: str, path: Path) -> str:
    """What the ledger says became of a key of the file."""
    name = "m.gguf" if file == "gguf" else file
    entries = [entry for entry in ledger.entries if (entry.file, entry.key) == (name, path_text(path))]
    (found,) = [entry.kind for entry in entries if file == "gguf" or entry.line is not None]
    return found


def _source(path: str, keys: Keys) -> Source:
    return Source(path=path, text=json.dumps(keys, indent=1))
