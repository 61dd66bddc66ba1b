"""What running a model needs of its plan set, kept in the cache, so that a warm start plans nothing.

The key covers everything that planning reads: the checkpoint's config or metadata, its table of tensors, the policy,
the rules, the files under kernels/ and recipes/, and the compiler's own source. A damaged entry is planned again.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from circuit.bake.manifest import Manifest, manifest_text, parse
from circuit.emit.layout import Layout
from circuit.emit.layout_text import layout_text, parse_layout
from circuit.emit.sources import Sources
from circuit.errors import RunError
from circuit.load.inputs import Library
from circuit.text import Source
from circuit_exec.cache import Cache, entry_path, key_of, read_checked, write_checked
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.program_key import checkpoint_parts, code_key, library_parts

KIND = "planned"
FORM = "3"
"""Of an entry; counted up where its fields change."""


class Planned(Struct, frozen=True, kw_only=True):
    """A plan set without its plans: the C sources, what they need, and what the digests say of it.

    `bytes_digest` is the part digest `bytes`, the same for all plans of the set; `digests` are (mode, digest).
    """

    hardware_class: str
    arch: str  # what the sources are compiled for
    sources: Sources
    layout: Layout
    manifest: Manifest
    bytes_digest: str
    digests: tuple[tuple[str, str], ...]
    launches: tuple[int, ...]  # of section main, of each plan
    certificate: tuple[tuple[str, str, str], ...]  # axis, holds, evidence


def planned(key: str, cache: Cache, make: Callable[[], Planned]) -> Planned:
    """The entry of the cache, or what `make` makes. A cache that cannot be written costs the next start its time."""
    path = entry_path(cache, KIND, f"{key}.json")
    found = _read(path)
    if found is not None:
        return found
    made = make()
    with suppress(RunError):  # whoever must write the cache, to compile or to bake, reports it
        write_checked(path, _body(made))
    return made


def planning_key(checkpoint: Checkpoint, library: Library, policy: tuple[str, ...], rules: str, runs_on: str) -> str:
    """The key of everything that planning depends on; `runs_on` is a class or what one is chosen by."""
    own = checkpoint_parts(checkpoint)
    texts = tuple(library_parts(library))
    counted = (str(len(part)) for part in (own, texts, policy))
    return key_of(KIND, FORM, code_key(), *counted, *own, *texts, *policy, rules, runs_on)


def _body(made: Planned) -> bytes:
    fields = {
        "class": made.hardware_class,
        "arch": made.arch,
        "layout": layout_text(made.layout),
        "manifest": manifest_text(made.manifest),
        "bytes": made.bytes_digest,
        "digests": " ".join(f"{mode}={digest}" for mode, digest in made.digests),
        "launches": " ".join(map(str, made.launches)),
    }
    return json.dumps([fields, [[source.path, source.text] for source in made.sources], made.certificate]).encode()


def _read(path: Path) -> Planned | None:
    """The entry, or None where there is none or it is damaged."""
    body = read_checked(path)
    if body is None:
        return None
    fields: dict[str, str]
    fields, files, certificate = json.loads(body)
    pairs = (pair.partition("=") for pair in fields["digests"].split(" "))
    return Planned(
        hardware_class=fields["class"],
        arch=fields["arch"],
        sources=tuple(Source(path=path, text=text) for path, text in files),
        layout=parse_layout(fields["layout"]),
        manifest=parse(Source(path=str(path), text=fields["manifest"])),
        bytes_digest=fields["bytes"],
        digests=tuple((mode, digest) for mode, _, digest in pairs),
        launches=tuple(int(count) for count in fields["launches"].split(" ")),
        certificate=tuple((axis, holds, evidence) for axis, holds, evidence in certificate),
    )
