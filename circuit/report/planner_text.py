"""The planner's report as sections."""

from circuit.load.devices import Figure, rate
from circuit.report.audit_text import audit_summary
from circuit.report.fit import Fit
from circuit.report.memory import Memory, needed, weight_bytes
from circuit.report.planner import Planner
from circuit.report.roofline import Roofline, share
from circuit.report.sections import Section, Table, bytes_text, count_text, not_rendered, rate_text, time_text


def planner_sections(report: Planner) -> tuple[Section, ...]:
    """Device, inputs, memory, how formats run, audit, roofline, gaps, port list, fit."""
    return (
        _device(report),
        _inputs(report),
        *memory_sections(report.memory),
        _formats(report),
        audit_summary(report.audit),
        _roofline(report),
        *(_gaps(report, roof) for roof in report.rooflines[:1]),
        _ports(report),
        *fit_sections(report.memory, report.fit),
    )


def _inputs(report: Planner) -> Section:
    whys: dict[str, list[str]] = {}
    for each in report.inputs:
        if each.why:
            whys.setdefault(each.why, []).append(each.name)
    return Section(
        title="inputs, each with where it is from",
        table=Table(
            head=("input", "value", "from"),
            rows=tuple((each.name, each.value, each.origin) for each in report.inputs),
        ),
        notes=tuple(f"{', '.join(names)}: {why}" for why, names in whys.items()),
    )


def _device(report: Planner) -> Section:
    device = report.device
    figures: list[tuple[str, str, Figure]] = [
        ("memory", bytes_text(device.memory_bytes.value), device.memory_bytes),
        ("bandwidth", rate_text(device.bandwidth.value, "B"), device.bandwidth),
        *((name, rate_text(figure.value, "FLOP"), figure) for name, figure in device.rates),
    ]
    if device.launch_s is not None:
        figures.append(("launch", time_text(device.launch_s.value), device.launch_s))
    notes = [
        f"policy: {' '.join(f'{key}={value}' for key, value in report.policy)}",
        f"digest of what changes bytes: {report.bytes_digest}",
        *not_rendered(report.language, report.rendered),
    ]
    return Section(
        title=f"{report.model_type} ({report.arch}) on {device.name}, class {device.hardware_class}",
        table=Table(
            head=("figure", "value", "of"),
            rows=tuple((name, text, "derived" if figure.derived else "stated") for name, text, figure in figures),
        ),
        notes=(*notes, *dict.fromkeys(f"source: {_source(figure)}" for _, _, figure in figures)),
    )


def _source(figure: Figure) -> str:
    return f"{figure.source} ({figure.derived})" if figure.derived else figure.source


def memory_sections(held: Memory) -> tuple[Section, ...]:
    """Weights by kind, states, arenas."""
    rows = [
        (each.name, each.format, str(each.count), bytes_text(each.stored), bytes_text(each.baked))
        for each in held.weights
    ]
    stored = sum(each.stored for each in held.weights)
    rows.append(("all", "", "", bytes_text(stored), bytes_text(weight_bytes(held))))
    yield_states = [
        (kind, format, str(count), f"{of_one:,} B", bytes_text(of_one * held.context))
        for kind, format, count, of_one in held.states
    ]
    arenas = [(mode, f"{lo}-{hi}", bytes_text(n)) for mode, (lo, hi), n in held.arenas]
    return (
        Section(
            title="weights",
            table=Table(head=("weight", "format", "count", "stored", "baked"), rows=tuple(rows)),
            notes=("baked: in whole panels of words, as the program reads them",),
        ),
        Section(
            title="states",
            table=Table(head=("kind", "format", "count", "a position", "the context"), rows=tuple(yield_states)),
            notes=(
                f"{held.token_bytes:,} bytes a position in all; a page of 64 positions takes "
                f"{bytes_text(held.page_bytes)}",
            ),
        ),
        Section(
            title="arena",
            table=Table(head=("plan", "rows", "bytes"), rows=tuple(arenas)),
            notes=(f"with outputs (logits, tokens) of {bytes_text(held.outputs)} for the most rows",),
        ),
    )


def _formats(report: Planner) -> Section:
    rows = tuple(
        (each.format, str(each.launches), each.instruction, each.how, ", ".join(each.faster) or "none")
        for each in report.ran
    )
    return Section(
        title="how formats run",
        table=Table(head=("format", "launches", "runs on", "values", "unused"), rows=rows),
        notes=(
            "unused: instructions of the device that multiply the stored codes, at another parity or policy",
            *dict.fromkeys(
                f"{each.instruction}: the device states no rate for it, and the ceiling counts it as free"
                for each in report.ran
                if rate(report.device, each.instruction) is None
            ),
        ),
    )


def _roofline(report: Planner) -> Section:
    known = report.device.launch_s is not None
    rows = tuple(_work(roof) for roof in report.rooflines)
    floor = report.rooflines[0] if report.rooflines else None
    notes = [f"{work.name}: left out, {why}" for work, why in report.left_out]
    if floor is not None:
        notes.insert(
            0,
            f"weight floor: {bytes_text(floor.weight_bytes)} read a step = {time_text(floor.weight_floor_s)}",
        )
        unknown = "launch cost: not known for this device; `met calibrate` measures the machine at hand"
        notes.append("predicted: tok/s with what the launches cost" if known else unknown)
        notes.append("by ops: the part of the time that is bound by operations, not by memory")
    return Section(
        title="roofline",
        table=Table(head=(*_WORK, *(("predicted",) if known else ())), rows=rows),
        notes=tuple(notes),
    )


_WORK = ("work", "context", "steps", "ceiling", "tok/s", "weights", "KV", "by ops")


def _work(roof: Roofline) -> tuple[str, ...]:
    operations = sum(site.ceiling_s for site in roof.sites if site.bound == "operations") / roof.ceiling_s
    cells = (
        roof.work.name,
        f"{roof.work.context:,}",
        str(roof.steps),
        time_text(roof.ceiling_s),
        count_text(roof.tokens / roof.ceiling_s),
        bytes_text(sum(site.weights for site in roof.sites)),
        bytes_text(sum(site.states for site in roof.sites)),
        f"{operations:.0%}",
    )
    if roof.launch_s is None:
        return cells
    return (*cells, count_text(roof.tokens / (roof.ceiling_s + roof.launch_s)))


_LEAST = 0.0005
"""The least share of a step that is listed."""


def _gaps(report: Planner, roof: Roofline) -> Section:
    sites = sorted(roof.sites, key=lambda site: -site.ceiling_s)
    rows = tuple(
        (site.kernel, str(site.launches), time_text(site.ceiling_s), f"{share(site, roof):.1%}", site.bound)
        for site in sites
        if share(site, roof) >= _LEAST
    )
    rest = sum(share(site, roof) for site in sites if share(site, roof) < _LEAST)
    made = "generated from its definition" if report.rendered else "a definition, to be ported"
    return Section(
        title=f"sites of {roof.work.name} by their share of the step",
        table=Table(head=("site", "launches", "ceiling", "share", "bound by"), rows=rows),
        notes=(f"all other sites: {rest:.2%}", f"every kernel is {made}"),
    )


def _ports(report: Planner) -> Section:
    rows = tuple(
        (each.what, each.kind, *(f"{part:.1%}" for part in each.shares), each.gives_up or "nothing")
        for each in report.ports
        if max(each.shares) >= _LEAST
    )
    made = "with the class's schedules" if report.rendered else "and not rendered"
    return Section(
        title=f"port list: what tuned plans on class {report.device.hardware_class} lack, by share of a step",
        table=Table(head=("missing", "kind", *report.port_works, "gives up"), rows=rows),
        notes=(
            f"kernel: all launches of a rule, generated from their definition {made}",
            "instruction: the class has it, it takes the weights without loss, and no kernel uses it",
            "gives up: what of the policy a use asks for",
        ),
    )


def fit_sections(held: Memory, found: Fit) -> tuple[Section, ...]:
    """The table of concurrency and context, the largest of each, and other engines' rules."""
    contexts = tuple(dict.fromkeys(context for _, context, _, _ in found.cells))
    rows = tuple(
        (str(n), *(_cell(found, n, context) for context in contexts))
        for n in dict.fromkeys(n for n, _, _, _ in found.cells)
    )
    notes = [
        f"usable: {bytes_text(found.usable)}, of which the plan and its weights take "
        f"{bytes_text(needed(held, 0, 0))}; reserved for others: {bytes_text(found.reserved)}"
    ]
    notes += [f"at {context:,} positions: at most {n:,} sequences" for context, n in found.most]
    notes += [f"{n} at once: at most {context:,} positions each" for n, context in found.longest]
    engines = tuple(
        (each.name, f"{each.part:.2f}", bytes_text(found.usable * each.part), str(n)) for each, n in found.engines
    )
    return (
        Section(
            title="memory fit: bytes needed by sequences (down) and positions (across)",
            table=Table(head=("sequences", *(f"{context:,}" for context in contexts)), rows=rows),
            notes=("!: does not fit", *notes),
        ),
        Section(
            title=f"keys and values by policy, at {found.engine_context:,} positions",
            table=Table(
                head=("policy", "a position", "sequences"),
                rows=tuple((f"kv={format}", f"{of_one:,} B", str(n)) for format, of_one, n in found.kv),
            ),
        ),
        Section(
            title=f"the same under other engines' rules, at {found.engine_context:,} positions",
            table=Table(head=("engine", "part", "of memory", "sequences"), rows=engines),
            notes=tuple(f"{each.name}: {each.says}. {each.source}" for each, _ in found.engines),
        ),
    )


def _cell(found: Fit, n: int, context: int) -> str:
    bytes_, fits = next((b, f) for a, c, b, f in found.cells if (a, c) == (n, context))
    return bytes_text(bytes_) + ("" if fits else " !")
