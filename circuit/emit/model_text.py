"""`model.c` of an emitted program: the layout and the manifest as the data of kernels/cpu/program/model.h."""

from collections.abc import Iterable

from msgspec import Struct

from circuit.bake.manifest import Manifest, manifest_digest
from circuit.emit.fill import fill_masks
from circuit.emit.layout import PAGE, Layout, Step
from circuit.text import Source, quoted

MODES = {"prefill": "MODEL_PREFILL", "decode": "MODEL_DECODE"}
_LARGEST = 2**31 - 1


class Described(Struct, frozen=True, kw_only=True):
    """What model.c states beside layout and manifest. `stops` are the ids that end a text."""

    name: str
    has_weights: bool
    stops: tuple[int, ...]


def model_source(layout: Layout, manifest: Manifest, described: Described) -> Source:
    """The file."""
    logits = {output.columns for step in layout.steps for output in step.outputs if output.edge == "head.logits"}
    (n_logits,) = logits
    tokens = next((given.hi for given in layout.inputs if given.name == "tokens"), _LARGEST - 1)
    masks: dict[tuple[tuple[int, int], ...], str] = {}
    weights = []
    for entry in manifest.entries:
        lanes, unit = fill_masks(entry, manifest.panel)
        name = masks.setdefault(unit, f"masks_{len(masks)}")
        weights.append(f"{{{entry.offset_bytes}, {entry.n_bytes // 4}, {lanes}, {len(unit)}, {name}}}")
    fields = (
        ("name", _string(described.name)),
        ("manifest", _string(manifest_digest(manifest))),
        ("has_weights", int(described.has_weights)),
        ("context", layout.context),
        ("table_width", layout.table_width),
        ("n_tokens", tokens + 1),
        ("n_logits", n_logits),
        ("arena_bytes", layout.arena_bytes),
        ("weight_bytes", manifest.n_bytes),
        ("n_plans", len(layout.steps)),
        ("n_states", len(layout.states)),
        ("n_weights", len(weights)),
        ("n_stops", len(described.stops)),
        ("plans", "plans"),
        ("states", "states"),
        ("weights", "weights"),
        ("stops", "stops"),
    )
    parts = [
        '#include "model.h"',
        _table("model_plan", "plans", [_plan(step) for step in layout.steps]),
        _table(
            "model_state", "states", [f"{{{4 * s.page_words}, {s.max_pages}}}" for s in layout.states] or ["{0, 0}"]
        ),
        *(_table("uint32_t", name, [f"{{{a:#x}, {b:#x}}}" for a, b in unit], "[2]") for unit, name in masks.items()),
        _table("model_weight", "weights", weights),
        _table("int32_t", "stops", [str(stop) for stop in described.stops] or ["-1"]),
        "const model_info model = {\n" + "".join(f"    .{name} = {value},\n" for name, value in fields) + "};\n",
    ]
    assert PAGE == 64, "model.h states the positions of a page"
    return Source(path="model.c", text="\n".join(parts))


def _plan(step: Step) -> str:
    at = {output.edge: output.offset_bytes for output in step.outputs}
    edges = (at.get(edge, "MODEL_NOWHERE") for edge in ("head.logits", "head.token", "head.sampled"))
    return f"{{{MODES[step.mode]}, {step.rows[0]}, {step.rows[1]}, {', '.join(map(str, edges))}}}"


def _table(kind: str, name: str, rows: Iterable[str], inner: str = "") -> str:
    return f"static const {kind} {name}[]{inner} = {{\n" + "".join(f"    {row},\n" for row in rows) + "};\n"


def _string(text: str) -> str:
    """A C string literal; what is not printable ASCII is left out of names by the caller."""
    assert text.isascii(), f"{text} is not ASCII"
    return quoted(text)
