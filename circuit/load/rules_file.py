"""`kernels/<class>/common/FUSIONS.toml`: the shape of the file, and how it is read to the records of `rules.py`."""

from typing import Literal

from msgspec import field

from circuit.errors import LoadError, Problem
from circuit.formats import EDGE_FORMATS, FORMATS, STATE_FORMATS
from circuit.load.edge import FileShape, validated
from circuit.load.families import Family
from circuit.load.hardware import HardwareClass
from circuit.load.inputs import Library, files_under
from circuit.load.ops import OPS, Mode
from circuit.load.policy import KEYS
from circuit.load.rules import FILE, Accepted, Element, Gate, Rule, RuleValue
from circuit.load.shapes import RowRange, Schema
from circuit.load.source import Document, line_of
from circuit.load.toml_text import read_toml
from circuit.text import listed, problem_at


def read_rules(library: Library, hardware: HardwareClass, families: tuple[Family, ...]) -> tuple[Rule, ...]:
    """The rules of a class, read."""
    rules: dict[str, Rule] = {}
    problems: list[Problem] = []
    for folder in reversed(hardware.lowered_by):
        for source in files_under(library, f"{folder}/common", FILE):
            document = read_toml(source)
            shape = validated(document, _RulesFile)
            for place, name in enumerate(shape.remove):
                if rules.pop(name, None) is None:
                    line = line_of(document, ("remove", place))
                    message = f"`remove` names rule `{name}`, which no inherited file has"
                    problems.append(problem_at(source, line, message, f"name one of: {listed(sorted(rules))}"))
            own: dict[str, Rule] = {}
            for place, shaped in enumerate(shape.rule):
                rule = _rule(document, place, shaped)
                problems += _wrong(document, place, rule, own, families)
                own[rule.id] = rule
            rules.update(own)
    if problems:
        raise LoadError(problems)
    return tuple(sorted(rules.values(), key=lambda rule: (-rule.priority, rule.id)))


def read_gates(library: Library) -> tuple[Gate, ...]:
    """Every `when` of every class, read."""
    found: list[Gate] = []
    for source in (s for s in library.files if s.path.replace("\\", "/").endswith(f"/common/{FILE}")):
        document = read_toml(source)
        for place, rule in enumerate(validated(document, _RulesFile).rule):
            line = line_of(document, ("rule", place, "when"))
            found += [
                Gate(key=key, rule=rule.id, numerics=rule.numerics, file=source.path, line=line) for key in rule.when
            ]
    return tuple(found)


_Any = Literal["any"]


class _Element(FileShape, frozen=True, kw_only=True):
    op: str
    roles: _Any | list[str] | None = None
    reads: list[str] | None = None
    writes: list[str] | None = None
    weight: _Any | list[str] | None = None
    bias: _Any | list[str] | None = None
    state: list[str] | None = None
    keep: bool = False
    sibling: bool = False
    params: dict[str, _Any | list[RuleValue]] = field(default_factory=dict)


class _Rule(FileShape, frozen=True, kw_only=True):
    id: str
    why: str
    pattern: list[_Element]
    same: list[Literal["weight", "bias"]] = field(default_factory=list)
    derive: Literal["concat"] | None = None
    modes: list[Mode]
    rows: RowRange
    when: dict[str, list[str]] = field(default_factory=dict)
    lever: str | None = None
    family: str
    numerics: Literal["bit_identical", "reference", "differs"]
    proof: str | None = None
    opt_in: bool = False
    priority: int
    example: str


class _RulesFile(FileShape, frozen=True, kw_only=True):
    schema: Schema
    remove: list[str] = field(default_factory=list)
    rule: list[_Rule] = field(default_factory=list)


def _rule(document: Document, place: int, shape: _Rule) -> Rule:
    return Rule(
        id=shape.id,
        why=shape.why,
        pattern=tuple(_element(element) for element in shape.pattern),
        same=tuple(shape.same),
        derive=shape.derive,
        modes=tuple(shape.modes),
        rows=(shape.rows[0], shape.rows[1]),
        when=tuple((key, tuple(values)) for key, values in sorted(shape.when.items())),
        lever=shape.lever,
        family=shape.family,
        numerics=shape.numerics,
        proof=shape.proof,
        opt_in=shape.opt_in,
        used=not shape.opt_in,
        priority=shape.priority,
        example=shape.example,
        file=document.source.path,
        line=line_of(document, ("rule", place)),
    )


def _element(shape: _Element) -> Element:
    written: dict[str, _Any | list[str] | list[RuleValue] | None] = {
        "role": shape.roles,
        "reads": shape.reads,
        "writes": shape.writes,
        "weight": shape.weight,
        "bias": shape.bias,
        "state": shape.state,
    }
    written |= {f"param.{name}": values for name, values in shape.params.items()}
    accepts: list[tuple[str, Accepted]] = []
    for name, values in sorted(written.items()):
        if values == "any":
            accepts.append((name, "any"))
        elif isinstance(values, list):
            accepts.append((name, tuple(values)))
    return Element(op=shape.op, accepts=tuple(accepts), keep=shape.keep, sibling=shape.sibling)


def _wrong(
    document: Document, place: int, rule: Rule, own: dict[str, Rule], families: tuple[Family, ...]
) -> list[Problem]:
    problems: list[Problem] = []

    def refuse(message: str, fix: str, key: str | None = None) -> None:
        line = line_of(document, ("rule", place) if key is None else ("rule", place, key))
        problems.append(problem_at(document.source, line, f"rule `{rule.id}`: {message}", fix))

    if rule.id in own:
        refuse(f"written twice; the other is on line {own[rule.id].line}", "rename one, or remove it")
    if not rule.pattern:
        refuse("the pattern is empty", "add one element for each op", "pattern")
    if rule.pattern and rule.pattern[0].sibling:
        refuse("the first element of a pattern cannot be a sibling", "remove `sibling`", "pattern")
    if rule.rows[0] > rule.rows[1]:
        refuse(f"rows {rule.rows[0]} to {rule.rows[1]}", "write rows = [lowest, highest]", "rows")
    if (rule.numerics == "bit_identical") != (rule.proof is not None):
        refuse('`proof` belongs to numerics = "bit_identical", and to it alone', "add or remove `proof`", "numerics")
    if (rule.numerics == "differs") != (rule.lever is not None):
        refuse('`lever` belongs to numerics = "differs", and to it alone', "add or remove `lever`", "numerics")
    if rule.opt_in and rule.numerics != "bit_identical":
        message = '`opt_in` belongs to numerics = "bit_identical", and to it alone: it must not change a byte'
        refuse(message, "remove `opt_in`, or opt in by `lever` and `when`", "opt_in")
    if rule.lever is not None and rule.lever not in dict(rule.when):
        refuse(f"`when` does not say which value of `{rule.lever}` opts in", f"add when.{rule.lever}", "lever")
    for key in (key for key, _ in rule.when if key not in {known.name for known in KEYS}):
        refuse(f"there is no policy key `{key}`", f"use one of: {listed(known.name for known in KEYS)}", "when")
    if rule.numerics == "bit_identical" and len(rule.pattern) == 1:
        refuse("a single op defines its own numerics", 'write numerics = "reference"', "numerics")
    family = next((f for f in families if f.id == rule.family), None)
    if family is None:
        known = listed(f.id for f in families)
        refuse(f"there is no family `{rule.family}`", f"use one of: {known}", "family")
    for at, element in enumerate(rule.pattern):
        line = line_of(document, ("rule", place, "pattern", at))
        for message, fix in _wrong_element(element):
            problems.append(problem_at(document.source, line, f"rule `{rule.id}`: {message}", fix))
        if family is not None and element.op not in family.ops:
            message = f"rule `{rule.id}`: family `{family.id}` does not compute `{element.op}`"
            fix = f"add it to `ops` ({family.file}:{family.line}), or use another family"
            problems.append(problem_at(document.source, line, message, fix))
    return problems


def _wrong_element(element: Element) -> list[tuple[str, str]]:
    """What keeps the element from ever matching: matching is closed, so it must state every fact that the op has."""
    use = OPS.get(element.op)
    if use is None:
        return [(f"there is no op `{element.op}`", f"use one of: {listed(OPS)}")]
    has = {f"param.{name}" for name, _ in use.params}
    has |= {"role"} if use.roles else set()
    has |= {"reads"} if use.inputs else set()
    has |= {"writes"} if use.outputs else set()
    has |= {"weight"} if use.weights else set()
    has |= {"bias"} if use.optional_weights else set()
    has |= {"state"} if use.state else set()
    stated = {name for name, _ in element.accepts}
    problems = [
        (f"`{element.op}` has {_fact(name)}, which the pattern leaves open", 'state the values it takes, or "any"')
        for name in sorted(has - stated)
    ]
    problems += [
        (f"`{element.op}` has no {_fact(name)}", "remove it from the pattern") for name in sorted(stated - has)
    ]
    for name, values in element.accepts:
        if name == "role" and values != "any":
            unknown = [str(value) for value in values if value not in use.roles]
            problems += [(f"`{element.op}` has no role `{r}`", f"use one of: {listed(use.roles)}") for r in unknown]
        if name in ("reads", "writes", "weight", "bias", "state") and values != "any":
            edges = EDGE_FORMATS if name in ("reads", "writes") else tuple(FORMATS)
            known = STATE_FORMATS if name == "state" else edges
            unknown = [str(value) for value in values if value not in known]
            problems += [(f"there is no format `{f}`", f"use one of: {listed(known)}") for f in unknown]
    return problems


def _fact(name: str) -> str:
    return f"parameter `{name[6:]}`" if name.startswith("param.") else f"`{name}`"
