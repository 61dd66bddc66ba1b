"""The text of `.bir`: six kinds of line, one a line: dim, const, block, share, bind, step.

Binds and steps belong to the block line above them. A list of numbers is written once, as a const, and named `@NAME`.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from circuit.front.bir import Bir, BirBind, BirBlock, BirEdge, BirShare, BirState, BirStep, BirValue
from circuit.text import (
    Source,
    check,
    literal,
    malformed,
    parse_literal,
    problem_at,
    quoted,
    unquoted,
    whole_number,
    words,
)

_INPUTS = "inputs"
"""The name of the block line that lists the edges a step is given."""


def bir_text(bir: Bir) -> str:
    """The block circuit, one line a thing; `parse_bir` reads it back."""
    lists = {value: name for name, value in bir.consts if isinstance(value, tuple)}
    return "\n".join(_lines(bir, lists)) + "\n"


def parse_bir(source: Source) -> Bir:
    """The block circuit of a text; a LoadError that names each line that does not parse."""
    reader = _Reader(source=source)
    problems = []
    for number, line in enumerate(source.text.split("\n"), 1):
        try:
            reader.line(words(line))
        except (ValueError, IndexError, KeyError) as error:
            problems.append(malformed(source, number, error, "bir"))
    if not problems:
        for name in ("arch", "context"):
            if name not in reader.header:
                fix = "start with `const arch` and `dim context`"
                problems.append(problem_at(source, 1, f"the text has no `{name}`", fix))
    check(problems)
    arch, context = reader.header["arch"], reader.header["context"]
    assert isinstance(arch, str)
    assert isinstance(context, int)
    return Bir(
        arch=arch,
        context=context,
        dims=tuple(reader.dims),
        consts=tuple(reader.consts.items()),
        inputs=tuple(reader.inputs),
        blocks=tuple(reader.blocks),
        shares=tuple(reader.shares),
        binds=tuple(reader.binds),
        steps=tuple(reader.steps),
    )


def _lines(bir: Bir, lists: Mapping[tuple[float, ...], str]) -> Iterator[str]:
    yield f"const arch {quoted(bir.arch)}"
    yield f"dim context {bir.context}"
    for name, number in bir.dims:
        yield f"dim {name} {number}"
    for name, value in bir.consts:
        shown = f"[{' '.join(map(literal, value))}]" if isinstance(value, tuple) else literal(value)
        yield f"const {name} {shown}"
    yield f"block {_INPUTS} writes {' '.join(map(_edge, bir.inputs))}"
    binds: dict[str, list[BirBind]] = {}
    for bind in bir.binds:
        binds.setdefault(bind.block, []).append(bind)
    steps: dict[str, list[BirStep]] = {}
    for step in bir.steps:
        steps.setdefault(step.block, []).append(step)
    for block in bir.blocks:
        yield _block(block)
        yield from map(_bind, binds.get(block.name, ()))
        for step in steps.get(block.name, ()):
            yield _step(step, lists)
    for share in bir.shares:
        yield f"share {quoted(share.key)} = {share.weight}"


def _block(block: BirBlock) -> str:
    text = f"block {block.name}"
    if block.layer is not None:
        text += f" layer {block.layer}"
    for state in block.states:
        text += f" state {state.name} {state.kind} {state.heads} {state.head_dim} {state.format}"
    return text + (f" outputs {' '.join(block.outputs)}" if block.outputs else "")


def _edge(edge: BirEdge) -> str:
    return f"{edge.name} {edge.format} {edge.rows} {edge.dim}"


def _bind(bind: BirBind) -> str:
    shape, axes = (" x ".join(map(str, sides)) for sides in (bind.shape, bind.axes))
    recipe = f"unpermute({bind.heads}, {quoted(bind.key)})" if bind.heads else quoted(bind.key)
    return f"bind {bind.name} {bind.format} {shape} ({axes}) <- {recipe}"


def _step(step: BirStep, lists: Mapping[tuple[float, ...], str]) -> str:
    text = f"step {step.id} {step.op}{':' + step.role if step.role else ''} reads {' '.join(step.inputs)}"
    if step.outputs:
        text += f" writes {' '.join(map(_edge, step.outputs))}"
    if step.weights:
        text += f" weights {' '.join(step.weights)}"
    if step.state is not None:
        text += f" state {step.state}"
    if step.section != "main":
        text += f" section {step.section}"
    params = [f"{name}={'@' + lists[v] if isinstance(v, tuple) else literal(v)}" for name, v in step.params]
    return text + (f" {{{', '.join(params)}}}" if params else "")


class _Reader(Struct, kw_only=True):
    source: Source
    header: dict[str, BirValue] = field(default_factory=dict)
    dims: list[tuple[str, int]] = field(default_factory=list)
    consts: dict[str, BirValue] = field(default_factory=dict)
    inputs: list[BirEdge] = field(default_factory=list)
    blocks: list[BirBlock] = field(default_factory=list)
    shares: list[BirShare] = field(default_factory=list)
    binds: list[BirBind] = field(default_factory=list)
    steps: list[BirStep] = field(default_factory=list)

    def line(self, line: list[str]) -> None:
        if not line or line[0] == "#":
            return
        readers: dict[str, Callable[[list[str]], None]] = {
            "dim": self.dim,
            "const": self.const,
            "block": self.block,
            "share": self.share,
            "bind": self.bind,
            "step": self.step,
        }
        if line[0] not in readers:
            raise ValueError(f"`{line[0]}` is none of: {', '.join(readers)}")
        readers[line[0]](line[1:])

    def dim(self, rest: list[str]) -> None:
        name, number = rest
        if name == "context":
            self.header[name] = whole_number(number)
        else:
            self.dims.append((name, whole_number(number)))

    def const(self, rest: list[str]) -> None:
        name, value = rest[0], rest[1:]
        if value[0] == "[" and value[-1] == "]":
            numbers = tuple(parse_literal(number) for number in value[1:-1])
            self.consts[name] = tuple(number for number in numbers if isinstance(number, float))
        elif len(value) != 1:
            raise ValueError("a const has one value or a list in brackets")
        elif name == "arch":
            self.header[name] = unquoted(value[0])
        else:
            self.consts[name] = parse_literal(value[0])

    def block(self, rest: list[str]) -> None:
        name, at = rest[0], 1
        layer: int | None = None
        states: list[BirState] = []
        outputs: tuple[str, ...] = ()
        while at < len(rest):
            match rest[at]:
                case "writes" if name == _INPUTS:
                    self.inputs, at = _edges(rest, at + 1)
                case "layer":
                    layer, at = whole_number(rest[at + 1]), at + 2
                case "state":
                    state, kind, heads, head_dim, stored = rest[at + 1 : at + 6]
                    states.append(
                        BirState(
                            name=state,
                            kind=kind,
                            heads=whole_number(heads),
                            head_dim=whole_number(head_dim),
                            format=stored,
                        )
                    )
                    at += 6
                case "outputs":
                    outputs, at = tuple(rest[at + 1 :]), len(rest)
                case other:
                    raise ValueError(f"`{other}` is no part of a block line")
        if name != _INPUTS:
            self.blocks.append(BirBlock(name=name, layer=layer, states=tuple(states), outputs=outputs))

    def share(self, rest: list[str]) -> None:
        key, equals, weight = rest
        if equals != "=":
            raise ValueError("`=` is expected after the tensor")
        self.shares.append(BirShare(key=unquoted(key), weight=weight))

    def bind(self, rest: list[str]) -> None:
        name, stored = rest[:2]
        opened, closed, arrow = rest.index("("), rest.index(")"), rest.index("<-")
        recipe = rest[arrow + 1 :]
        heads, key = 0, recipe[0]
        if recipe[0] == "unpermute":
            _, _, number, _, key, _ = recipe
            heads = whole_number(number)
        elif len(recipe) != 1:
            raise ValueError("a recipe is a tensor name or `unpermute(HEADS, NAME)`")
        self.binds.append(
            BirBind(
                name=name,
                block=self.blocks[-1].name,
                format=stored,
                shape=tuple(whole_number(side) for side in rest[2:opened:2]),
                axes=tuple(" ".join(rest[opened + 1 : closed]).split(" x ")),
                key=unquoted(key),
                heads=heads,
            )
        )

    def step(self, rest: list[str]) -> None:
        op, _, role = rest[1].partition(":")
        parts: dict[str, list[str]] = {}
        braces = rest.index("{") if "{" in rest else len(rest)
        current: list[str] = []
        for word in rest[2:braces]:
            if word in ("reads", "writes", "weights", "state", "section"):
                current = parts.setdefault(word, [])
            else:
                current.append(word)
        self.steps.append(
            BirStep(
                id=rest[0],
                block=self.blocks[-1].name,
                op=op,
                role=role or None,
                inputs=tuple(parts["reads"]),
                outputs=tuple(_edges(parts.get("writes", []), 0)[0]),
                weights=tuple(parts.get("weights", ())),
                state=parts["state"][0] if "state" in parts else None,
                params=tuple(self.params(rest[braces + 1 : -1])),
                section=parts.get("section", ["main"])[0],
            )
        )

    def params(self, rest: list[str]) -> Iterator[tuple[str, BirValue]]:
        for at in range(0, len(rest), 4):
            name, equals, value = rest[at : at + 3]
            if equals != "=":
                raise ValueError("a param is `name=value`")
            yield name, self.consts[value[1:]] if value.startswith("@") else parse_literal(value)


def _edges(rest: list[str], at: int) -> tuple[list[BirEdge], int]:
    edges = []
    while at < len(rest):
        name, stored, rows, dim = rest[at : at + 4]
        edges.append(BirEdge(name=name, format=stored, rows=rows, dim=whole_number(dim)))
        at += 4
    return edges, at
