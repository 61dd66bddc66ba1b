"""The tokenizer of an opened checkpoint, and the ids at which its texts stop."""

import json

from circuit.errors import LoadError, Problem
from circuit.text import Source
from circuit_exec.checkpoint.open import metadata_value, text
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.text.tokenizer import Tokenizer, stop_ids


def load_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer that belongs to the weights: from the folder's files or the GGUF metadata."""
    if checkpoint.kind == "gguf":
        from circuit_exec.text.gguf_keys import Keys
        from circuit_exec.text.gguf_tokenizer import tokenizer_of_gguf

        names = tuple(entry.key for entry in checkpoint.metadata)
        return tokenizer_of_gguf(
            Keys(file=checkpoint.path, names=names, read=lambda key: metadata_value(checkpoint, key))
        )
    from circuit_exec.text.folder_tokenizer import tokenizer_of_folder

    return tokenizer_of_folder(checkpoint.path, lambda name: text(checkpoint, name))


def all_stop_ids(checkpoint: Checkpoint, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The union of the tokenizer's stop ids and eos_token_id of config.json and generation_config.json, ascending."""
    return stop_ids(tokenizer, config_stop_ids(checkpoint))


def config_stop_ids(checkpoint: Checkpoint) -> tuple[int, ...]:
    """The ids of eos_token_id in config.json and generation_config.json, ascending; a GGUF file has neither."""
    return tuple(sorted({id for source in checkpoint.texts for id in _end_ids(source)}))


def _end_ids(source: Source) -> list[int]:
    config: object = json.loads(source.text)
    value = config.get("eos_token_id") if isinstance(config, dict) else None
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(id, int) and not isinstance(id, bool) and id >= 0 for id in ids):
        raise LoadError(
            Problem(
                message=f"eos_token_id is {json.dumps(value)}, not a token id or a list of them",
                fix="write the ids as integers",
                file=source.path,
            )
        )
    return ids
