"""The text of `.tir`: one line a thing, places as `%edge`, `wN`, `sN`; `<-` is a weight's recipe from the checkpoint.

Lists of numbers, such as rope frequencies, are written once as `list` lines, in hex, and named `@N`.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct, field

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
from circuit.tir.ir import SCHEMES, Concat, Edge, Key, Node, Quantized, Recipe, State, Tir, Unpermute, Value, Weight


def tir_text(tir: Tir) -> str:
    """The typed circuit; `parse_tir` reads it back."""
    lists = tuple(dict.fromkeys(v for node in tir.nodes for _, v in node.params if isinstance(v, tuple)))
    return "\n".join(_lines(tir, {value: f"@{place}" for place, value in enumerate(lists)})) + "\n"


def parse_tir(source: Source) -> Tir:
    """The typed circuit of a text; a LoadError that names each line that does not parse. It is not verified."""
    reader = _Reader()
    problems = []
    for number, line in enumerate(source.text.split("\n"), 1):
        try:
            reader.line(words(line))
        except (ValueError, IndexError, KeyError) as error:
            problems.append(malformed(source, number, error, "tir"))
    if not problems and not reader.arch:
        problems.append(problem_at(source, 1, "the text has no `tir` line", "start with `tir ARCH context N`"))
    if not problems and sorted(reader.edges) != list(range(len(reader.edges))):
        problems.append(problem_at(source, 1, "the edges are not numbered from 0 on", "number every edge once"))
    check(problems)
    return Tir(
        arch=reader.arch,
        context=reader.context,
        dims=tuple(reader.dims),
        edges=tuple(reader.edges[place] for place in range(len(reader.edges))),
        weights=tuple(reader.weights),
        states=tuple(reader.states),
        nodes=tuple(reader.nodes),
        inputs=tuple(reader.inputs),
        outputs=tuple(reader.outputs),
        shares=tuple(reader.shares),
    )


def _lines(tir: Tir, lists: dict[tuple[float, ...], str]) -> Iterator[str]:
    yield f"tir {tir.arch} context {tir.context}"
    for name, number in tir.dims:
        yield f"dim {name} {number}"
    for value, name in lists.items():
        yield f"list {name} [{' '.join(map(literal, value))}]"
    for place, state in enumerate(tir.states):
        yield f"state s{place} {state.name} {state.kind} {state.heads} {state.head_dim} {state.format}"
    for place, weight in enumerate(tir.weights):
        shape, axes = (" x ".join(map(str, sides)) for sides in (weight.shape, weight.axes))
        recipe = recipe_text(weight.recipe)
        yield f"weight w{place} {weight.name} {weight.format} {shape} ({axes}) <- {recipe}"
    for a, b in tir.shares:
        yield f"share {quoted(a)} = {quoted(b)}"
    for place in tir.inputs:
        yield f"input {_edge(tir, place)}"
    for node in tir.nodes:
        yield _node(tir, node, lists)
    for place in tir.outputs:
        yield f"output %{place}"


def _edge(tir: Tir, place: int) -> str:
    edge = tir.edges[place]
    return f"%{place} {edge.name} {edge.format} {edge.rows} {edge.dim}"


def recipe_text(recipe: Recipe) -> str:
    match recipe:
        case Key(key=key):
            return quoted(key)
        case Unpermute(of=of, heads=heads):
            return f"unpermute({heads}, {recipe_text(of)})"
        case Concat(parts=parts):
            return f"concat({', '.join(map(recipe_text, parts))})"
        case Quantized():
            keys = (recipe.codes, recipe.scales, recipe.zeros or "", recipe.order or "")
            numbers = f"{recipe.rows}, {recipe.columns}, {recipe.zero}"
            return f"{recipe.scheme}({numbers}, {', '.join(map(quoted, keys))})"


def _node(tir: Tir, node: Node, lists: dict[tuple[float, ...], str]) -> str:
    text = f"node {node.id} {node.op}{':' + node.role if node.role else ''} in {node.block}"
    if node.layer is not None:
        text += f" layer {node.layer}"
    if node.section != "main":
        text += f" section {node.section}"
    text += f" reads {' '.join(f'%{place}' for place in node.inputs)}"
    if node.weights:
        text += f" weights {' '.join(f'w{place}' for place in node.weights)}"
    if node.states:
        text += f" states {' '.join(f's{place}' for place in node.states)}"
    if node.outputs:
        text += f" writes {' '.join(_edge(tir, place) for place in node.outputs)}"
    params = [f"{name}={lists[value] if isinstance(value, tuple) else literal(value)}" for name, value in node.params]
    return text + (f" {{{', '.join(params)}}}" if params else "")


class _Reader(Struct, kw_only=True):
    arch: str = ""
    context: int = 0
    dims: list[tuple[str, int]] = field(default_factory=list)
    lists: dict[str, tuple[float, ...]] = field(default_factory=dict)
    edges: dict[int, Edge] = field(default_factory=dict)
    weights: list[Weight] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    shares: list[tuple[str, str]] = field(default_factory=list)

    def line(self, line: list[str]) -> None:
        if not line or line[0] == "#":
            return
        readers: dict[str, Callable[[list[str]], None]] = {
            "tir": self.head,
            "dim": self.dim,
            "list": self.numbers,
            "state": self.state,
            "weight": self.weight,
            "share": self.share,
            "input": self.input,
            "node": self.node,
            "output": self.output,
        }
        if line[0] not in readers:
            raise ValueError(f"`{line[0]}` is none of: {', '.join(readers)}")
        readers[line[0]](line[1:])

    def head(self, rest: list[str]) -> None:
        self.arch, _, context = rest
        self.context = whole_number(context)

    def dim(self, rest: list[str]) -> None:
        name, number = rest
        self.dims.append((name, whole_number(number)))

    def numbers(self, rest: list[str]) -> None:
        if rest[1] != "[" or rest[-1] != "]":
            raise ValueError("a list is in brackets")
        numbers = [parse_literal(word) for word in rest[2:-1]]
        self.lists[rest[0]] = tuple(number for number in numbers if isinstance(number, float))

    def state(self, rest: list[str]) -> None:
        place, name, kind, heads, head_dim, stored = rest
        _in_order(place, "s", len(self.states))
        self.states.append(
            State(name=name, kind=kind, heads=whole_number(heads), head_dim=whole_number(head_dim), format=stored)
        )

    def weight(self, rest: list[str]) -> None:
        place, name, stored = rest[:3]
        _in_order(place, "w", len(self.weights))
        opened, closed, arrow = rest.index("("), rest.index(")"), rest.index("<-")
        axes = " ".join(rest[opened + 1 : closed])
        recipe, end = _parse_recipe(rest, arrow + 1)
        if end != len(rest):
            raise ValueError("there are words after the recipe")
        self.weights.append(
            Weight(
                name=name,
                shape=tuple(whole_number(side) for side in rest[3:opened:2]),
                format=stored,
                recipe=recipe,
                axes=tuple(axes.split(" x ")) if axes else (),
            )
        )

    def share(self, rest: list[str]) -> None:
        a, equals, b = rest
        if equals != "=":
            raise ValueError("`=` is expected between two tensors")
        self.shares.append((unquoted(a), unquoted(b)))

    def input(self, rest: list[str]) -> None:
        self.inputs.extend(self.edge(rest))

    def output(self, rest: list[str]) -> None:
        (place,) = rest
        self.outputs.append(_place(place, "%"))

    def edge(self, rest: list[str]) -> Iterator[int]:
        for at in range(0, len(rest), 5):
            place, name, stored, rows, dim = rest[at : at + 5]
            number = _place(place, "%")
            if number in self.edges:
                raise ValueError(f"the edge %{number} is written twice")
            self.edges[number] = Edge(name=name, rows=rows, dim=whole_number(dim), format=stored)
            yield number

    def node(self, rest: list[str]) -> None:
        op, _, role = rest[1].partition(":")
        braces = rest.index("{") if "{" in rest else len(rest)
        parts: dict[str, list[str]] = {}
        current: list[str] = []
        for word in rest[2:braces]:
            if word in ("in", "layer", "section", "reads", "weights", "states", "writes"):
                current = parts.setdefault(word, [])
            else:
                current.append(word)
        self.nodes.append(
            Node(
                id=rest[0],
                op=op,
                role=role or None,
                inputs=tuple(_place(word, "%") for word in parts["reads"]),
                outputs=tuple(self.edge(parts.get("writes", []))),
                weights=tuple(_place(word, "w") for word in parts.get("weights", ())),
                states=tuple(_place(word, "s") for word in parts.get("states", ())),
                params=tuple(self.params(rest[braces + 1 : -1])),
                layer=whole_number(parts["layer"][0]) if "layer" in parts else None,
                block=parts["in"][0],
                section=parts.get("section", ["main"])[0],
            )
        )

    def params(self, rest: list[str]) -> Iterator[tuple[str, Value]]:
        for at in range(0, len(rest), 4):
            name, equals, value = rest[at : at + 3]
            if equals != "=":
                raise ValueError("a param is `name=value`")
            yield name, self.lists[value] if value.startswith("@") else parse_literal(value)


def _parse_recipe(rest: list[str], at: int) -> tuple[Recipe, int]:
    if rest[at] == "unpermute":
        of, end = _parse_recipe(rest, at + 4)
        return Unpermute(of=of, heads=whole_number(rest[at + 2])), end + 1
    if rest[at] == "concat":
        parts = []
        while rest[at] != ")":
            part, at = _parse_recipe(rest, at + (2 if rest[at] == "concat" else 1))
            parts.append(part)
        return Concat(parts=tuple(parts)), at + 1
    for scheme in SCHEMES:
        if rest[at] == scheme:
            rows, columns, zero = (whole_number(word) for word in rest[at + 2 : at + 8 : 2])
            codes, scales, zeros, order = (unquoted(word) for word in rest[at + 8 : at + 16 : 2])
            recipe = Quantized(
                scheme=scheme,
                codes=codes,
                scales=scales,
                zeros=zeros or None,
                order=order or None,
                rows=rows,
                columns=columns,
                zero=zero,
            )
            return recipe, at + 16
    return Key(key=unquoted(rest[at])), at + 1


def _place(word: str, mark: str) -> int:
    if not word.startswith(mark):
        raise ValueError(f"`{word}` is no place `{mark}N`")
    return whole_number(word[1:])


def _in_order(word: str, mark: str, count: int) -> None:
    if _place(word, mark) != count:
        raise ValueError(f"`{word}` is out of order, {mark}{count} is expected")
