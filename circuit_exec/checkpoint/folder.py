"""The weight files of a checkpoint's folder: one safetensors file, or the shards that its index names."""

import json
from pathlib import Path

from msgspec import Struct

from circuit.errors import LoadError, Problem
from circuit_exec.checkpoint.mapped import map_file, read_text
from circuit_exec.checkpoint.records import MappedFile, StoredTensor
from circuit_exec.checkpoint.safetensors import DuplicateKey, Json, read_safetensors, unique_keys

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
AGAIN = "download the checkpoint again, or keep only the files that belong to it"


class FolderWeights(Struct, frozen=True, kw_only=True, eq=False):
    """The tensors of all weight files, and the files; both empty where the folder has no safetensors file."""

    tensors: dict[str, StoredTensor]
    files: dict[str, MappedFile]


def read_folder(folder: Path, names: list[str]) -> FolderWeights:
    """The weights of `folder`, whose files are `names`; the index and the files must agree in both directions."""
    shards = [name for name in names if name.endswith(".safetensors")]
    if INDEX in names:
        index = _read_index(folder / INDEX)
        files = tuple(sorted(set(index.values())))
        _check_files(folder, shards, files)
        weights = _read_files(folder, files)
        _check_index(folder, index, weights.tensors)
        return weights
    if SINGLE in shards or len(shards) <= 1:
        return _read_files(folder, (SINGLE,) if SINGLE in shards else tuple(shards))
    raise LoadError(
        Problem(
            message=f"{len(shards)} safetensors files, but no {INDEX} that says which belong to the model",
            fix=f"download {INDEX} too, or keep one file named {SINGLE}",
            file=str(folder),
        )
    )


def _read_index(path: Path) -> dict[str, str]:
    """Tensor name to file name."""
    try:
        parsed: Json = json.loads(read_text(path).text, object_pairs_hook=unique_keys)
    except DuplicateKey as error:
        raise LoadError(Problem(message=f"the index names {error} twice", fix=AGAIN, file=str(path))) from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise LoadError(Problem(message="the index is not JSON", fix=AGAIN, file=str(path))) from error
    table = parsed.get("weight_map") if isinstance(parsed, dict) else None
    if not isinstance(table, dict) or not table:
        raise LoadError(Problem(message="the index has no weight_map", fix=AGAIN, file=str(path)))
    index = {}
    for name, file in table.items():
        if not isinstance(file, str) or "/" in file or "\\" in file or not file.endswith(".safetensors"):
            raise LoadError(
                Problem(
                    message=f"tensor {name}: the index gives {json.dumps(file)}, not a safetensors file of this folder",
                    fix=AGAIN,
                    file=str(path),
                )
            )
        index[name] = file
    return index


def _check_files(folder: Path, shards: list[str], files: tuple[str, ...]) -> None:
    problems = [
        Problem(
            message=f"the index names {name}, which is missing",
            fix=f"download {name} into this folder",
            file=str(folder),
        )
        for name in files
        if name not in shards
    ]
    if SINGLE in shards and SINGLE not in files:
        problems.append(
            Problem(
                message=f"there is {SINGLE} and also an index that names other files",
                fix="keep one of the two",
                file=str(folder),
            )
        )
    if problems:
        raise LoadError(problems)


def _read_files(folder: Path, names: tuple[str, ...]) -> FolderWeights:
    files: dict[str, MappedFile] = {}
    tensors: dict[str, StoredTensor] = {}
    problems: list[Problem] = []
    for name in names:
        file = str(folder / name)
        try:
            files[file] = map_file(file)
            found = read_safetensors(file, files[file].data)
        except LoadError as error:
            problems += error.problems
            continue
        for tensor in found:
            if tensor.name in tensors:
                first = Path(tensors[tensor.name].file).name
                problems.append(Problem(message=f"tensor {tensor.name}: is also in {first}", fix=AGAIN, file=file))
            tensors[tensor.name] = tensor
    if problems:
        raise LoadError(problems)
    return FolderWeights(tensors=tensors, files=files)


def _check_index(folder: Path, index: dict[str, str], tensors: dict[str, StoredTensor]) -> None:
    problems = []
    for name, file in index.items():
        if name not in tensors:
            problems.append(
                Problem(
                    message=f"tensor {name}: the index says it is in {file}, but it is not",
                    fix=AGAIN,
                    file=str(folder / file),
                )
            )
        elif Path(tensors[name].file).name != file:
            actual = tensors[name].file
            problems.append(Problem(message=f"tensor {name}: the index says it is in {file}", fix=AGAIN, file=actual))
    for name, tensor in tensors.items():
        if name not in index:
            problems.append(Problem(message=f"tensor {name}: is not in {INDEX}", fix=AGAIN, file=tensor.file))
    if problems:
        raise LoadError(problems)
