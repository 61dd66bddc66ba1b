"""A recipe resolved: every value with the line it stands on, and the digests that it comes to."""

from msgspec import Struct

from circuit.load.recipe import Recipe
from circuit.load.source import line_of
from circuit.report.memory import needed
from circuit.report.planner import Planner
from circuit.report.sections import Section, Table, bytes_text


class Value(Struct, frozen=True, kw_only=True):
    """A key with its value, and where that stands."""

    key: str
    value: str
    file: str
    line: int | None


class Digest(Struct, frozen=True, kw_only=True):
    """A digest as it comes out here, and as the recipe records it; None where it records none."""

    name: str
    here: str
    recorded: str | None


class Shown(Struct, frozen=True, kw_only=True):
    """A recipe and what it comes to on its device. `needed` and `memory` are bytes."""

    title: str
    model_type: str
    device: str
    hardware_class: str
    values: tuple[Value, ...]
    digests: tuple[Digest, ...]
    fingerprint: str | None
    outputs: int
    needed: int
    memory: int


def shown(recipe: Recipe, report: Planner, plans: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]) -> Shown:
    """`plans`: of each class that was planned here, the digests by mode and rows."""
    resources, expect = recipe.resources, recipe.expect
    recorded = {(name, plan): digest for name, plan, digest in (expect.plans if expect else ())}
    digests = [Digest(name="bytes", here=report.bytes_digest, recorded=expect.bytes if expect else None)]
    digests += [
        Digest(name=f"{plan} of class {name}", here=digest, recorded=recorded.get((name, plan)))
        for name, own in plans
        for plan, digest in own
    ]
    stated: list[tuple[tuple[str, ...], str]] = [(("checkpoint", "source"), recipe.checkpoint.source)]
    stated += [(("checkpoint", "files", name), digest) for name, digest in recipe.checkpoint.files]
    stated += [(("policy", name), value) for name, value in recipe.policy.entries]
    stated += [
        (("resources", name), str(value))
        for name, value in (
            ("hardware", resources.hardware),
            ("sequences", resources.sequences),
            ("context", resources.context),
            ("reserved_bytes", resources.reserved_bytes),
            ("threads", resources.threads),
        )
        if value is not None
    ]
    return Shown(
        title=recipe.metadata.title,
        model_type=report.model_type,
        device=report.device.id,
        hardware_class=report.device.hardware_class,
        values=tuple(
            Value(
                key=".".join(path),
                value=value,
                file=recipe.document.source.path,
                line=line_of(recipe.document, path),
            )
            for path, value in stated
        ),
        digests=tuple(digests),
        fingerprint=None if expect is None else expect.fingerprint,
        outputs=0 if expect is None else len(expect.outputs),
        needed=needed(report.memory, resources.sequences, resources.context),
        memory=int(report.device.memory_bytes.value),
    )


def shown_sections(found: Shown) -> tuple[Section, ...]:
    """For a terminal; digests are cut to 16 digits, --json has them whole."""
    same = {True: "equal", False: "differs"}
    values = tuple(
        (value.key, value.value if len(value.value) < 64 else f"{value.value[:16]}…", f"line {value.line}")
        for value in found.values
    )
    digests = tuple(
        (each.name, each.here[:16], "none" if each.recorded is None else same[each.recorded == each.here])
        for each in found.digests
    )
    takes, has = bytes_text(found.needed), bytes_text(found.memory)
    notes = [f"these resources take {takes} of {has} of {found.device}, class {found.hardware_class}"]
    record = f"{found.outputs} outputs are recorded" if found.outputs else "no output is recorded"
    kept = "" if found.fingerprint is None else f", with the fingerprint {found.fingerprint[:16]}"
    return (
        Section(title=found.title, table=Table(head=("key", "value", "stated"), rows=values), notes=tuple(notes)),
        Section(
            title="digests",
            table=Table(head=("digest", "here", "recorded"), rows=digests),
            notes=(f"{record}{kept}; `met recipe verify` compares them",),
        ),
    )
