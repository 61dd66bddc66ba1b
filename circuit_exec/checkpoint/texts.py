"""What the compiler is given of a checkpoint: its texts and tables as plain records, without one weight."""

from circuit.load.inputs import CheckpointTexts, GgufKey, GgufTexts, HfTexts, TensorInfo
from circuit.load.source import Length
from circuit.text import Source
from circuit_exec.checkpoint.records import Checkpoint, LongArray, Metadata


def checkpoint_texts(checkpoint: Checkpoint) -> CheckpointTexts:
    """The records that `circuit` plans from. The vocabulary of a GGUF file is not decoded: a plan knows its length."""
    tensors = tuple(
        TensorInfo(name=t.name, format=t.format, shape=t.shape, exact_bf16=t.name in checkpoint.exact_bf16)
        for t in checkpoint.tensors.values()
    )
    if checkpoint.kind == "gguf":
        return GgufTexts(
            path=checkpoint.path,
            metadata=tuple(map(_key, checkpoint.metadata)),
            tensors=tensors,
            rope_factors=rope_factors(checkpoint),
        )
    return HfTexts(
        config=checkpoint.texts[0],
        generation_config=_named(checkpoint, "generation_config.json"),
        quantization=_named(checkpoint, "hf_quant_config.json"),
        tensors=tensors if checkpoint.kind == "safetensors" else None,
    )


def rope_factors(checkpoint: Checkpoint) -> tuple[float, ...] | None:
    """The values of `rope_freqs.weight` of a GGUF file, each a float32; None where there is no such tensor."""
    if "rope_freqs.weight" not in checkpoint.tensors:
        return None
    from circuit_exec.checkpoint.decode import tensor_values  # numpy, which few checkpoints need here

    return tuple(float(value) for value in tensor_values(checkpoint, "rope_freqs.weight").reshape(-1))


def _key(entry: Metadata) -> GgufKey:
    value = Length(entry.value.count) if isinstance(entry.value, LongArray) else entry.value
    return GgufKey(key=entry.key, type=entry.type, value=value)


def _named(checkpoint: Checkpoint, name: str) -> Source | None:
    for source in checkpoint.texts[1:]:
        if source.path.replace("\\", "/").rpartition("/")[2] == name:
            return source
    return None
