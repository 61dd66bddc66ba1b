"""The typed circuit (`.tir`): ops of Sigma on typed edges, states, and weights with their recipes, as flat lists.

An input is a number: nodes name edges, weights and states by their place in the lists of `Tir`.
"""

from typing import Literal

from msgspec import Struct

from circuit.formats import edge_words

Value = bool | int | float | str | tuple[float, ...]
"""A node's parameter. Rope frequencies are a tuple of floats, each exactly a float32."""


class Key(Struct, frozen=True, kw_only=True):
    """A tensor of the checkpoint, under its name there, as a whole."""

    key: str


class Unpermute(Struct, frozen=True, kw_only=True):
    """Rows put back from the interleaved order that llama-type GGUF files store q and k in.

    For each of `heads` heads of `head_dim` rows, row `2*i + s` of `of` becomes row `s*head_dim/2 + i`.
    """

    of: "Recipe"
    heads: int


class Concat(Struct, frozen=True, kw_only=True):
    """Rows of the parts, one part below the other."""

    parts: tuple["Recipe", ...]


Scheme = Literal["fp8", "packed", "awq", "gptq", "gptq_v2"]
"""How a quantization scheme lays out its tensors: fp8 codes of outputs x inputs; codes of 4 bits packed along the
inputs of each output (packed), along the outputs in an order of its own (awq), or along the inputs of all outputs
(gptq, whose first version stores zeros less one)."""
SCHEMES: tuple[Scheme, ...] = ("fp8", "packed", "awq", "gptq", "gptq_v2")


class Quantized(Struct, frozen=True, kw_only=True):
    """A projection that a scheme keeps in several tensors of the checkpoint: its values are (code - zero) * scale.

    `rows` x `columns` values share a scale. `zero`: the zero that every group must have, 0 where they are as stored.
    `order` is the tensor that tells the group of each input, which must be ascending.
    """

    scheme: Scheme
    codes: str
    scales: str
    zeros: str | None
    order: str | None
    rows: int
    columns: int
    zero: int


Recipe = Key | Unpermute | Concat | Quantized


def quantized_keys(recipe: Quantized) -> tuple[str, ...]:
    """Its tensors: codes, scales, and the zeros and the order where it has them."""
    return tuple(key for key in (recipe.codes, recipe.scales, recipe.zeros, recipe.order) if key is not None)


class Edge(Struct, frozen=True, kw_only=True):
    """A wire: `rows` x `dim` values in `format`. `rows` is "n" (rows of the step) or "m" (rows that get logits)."""

    name: str  # "l3.attn.q": for messages, texts and goldens, never for decisions
    rows: str
    dim: int
    format: str


def row_words(edge: Edge) -> int:
    """Elements of 4 bytes that a row of the edge takes."""
    return edge_words(edge.format, edge.dim)


class Weight(Struct, frozen=True, kw_only=True):
    """A tensor that nodes read; `shape`: (outputs, inputs) of a projection, (rows, dim) of a table, (dim,) of a vector.

    `format` is the checkpoint's storage format of every part of the recipe; "file" before the tensors are bound.
    `axes` are the sides of the shape as the circuit writes them ("heads*head_dim"): for messages, never for decisions.
    """

    name: str
    shape: tuple[int, ...]
    format: str
    recipe: Recipe
    axes: tuple[str, ...] = ()


class State(Struct, frozen=True, kw_only=True):
    """A cache: paged keys and values of one layer, `heads` x `head_dim` values a position and side."""

    name: str
    kind: str  # "paged_kv"
    heads: int
    head_dim: int
    format: str


class Node(Struct, frozen=True, kw_only=True):
    """One use of an op of Sigma. `weights` are in the op's own order (a linear: weight, then bias where it has one)."""

    id: str  # "l3.attn.q"
    op: str
    role: str | None = None
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    weights: tuple[int, ...] = ()
    states: tuple[int, ...] = ()
    params: tuple[tuple[str, Value], ...] = ()  # sorted by name
    layer: int | None = None
    block: str
    section: str = "main"  # one of circuit/load/ops.py: which part of a step runs it


class Tir(Struct, frozen=True, kw_only=True):
    """An instance: a circuit with every number known. `nodes` are in execution order.

    `inputs` are edges that the step is given (token ids); `outputs` are edges that it must leave behind.
    `context` is the longest sequence, in positions. `shares` are pairs of tensors, (a, b): no node reads a, and where
    the checkpoint has it, its bytes must be those of b.
    """

    arch: str
    context: int
    dims: tuple[tuple[str, int], ...]
    edges: tuple[Edge, ...]
    weights: tuple[Weight, ...]
    states: tuple[State, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shares: tuple[tuple[str, str], ...] = ()


class Bound(Struct, frozen=True, kw_only=True):
    """`tir` with the formats of the file. The bytes of each pair in `equal` must be the same, which whoever reads the
    file checks. `ignored` are the tensors that no node reads, with the reason, sorted by name."""

    tir: Tir
    equal: tuple[tuple[str, str], ...]
    ignored: tuple[tuple[str, str], ...]


def param(node: Node, name: str) -> Value:
    """The node's parameter `name`; asking for one it does not have is a broken invariant."""
    for key, value in node.params:
        if key == name:
            return value
    raise AssertionError(f"{node.id}: {node.op} has no parameter {name}")
