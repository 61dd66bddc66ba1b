"""A dense decoder as an instance, built node by node: for tests of lowering and planning that need no checkpoint."""

from msgspec import Struct, field

from circuit.tir.ir import Edge, Key, Node, Recipe, State, Tir, Value, Weight


class Sizes(Struct, frozen=True, kw_only=True):
    """The numbers of a decoder."""

    layers: int = 2
    dim: int = 64
    ff: int = 96
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    vocab: int = 128
    context: int = 1024
    qk_norm: bool = False
    qkv_bias: bool = False
    window: int = 0
    theta: float = 10000.0
    eps: float = 1e-5
    weight_format: str = "bf16"


LLAMA_405B = Sizes(
    layers=126, dim=16384, ff=53248, heads=128, kv_heads=8, head_dim=128, vocab=128256, context=131072, theta=500000.0
)


class _Builder(Struct):
    sizes: Sizes
    edges: list[Edge] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)

    def edge(self, name: str, dim: int, rows: str = "n", format: str = "f32") -> int:
        self.edges.append(Edge(name=name, rows=rows, dim=dim, format=format))
        return len(self.edges) - 1

    def weight(self, name: str, *shape: int) -> int:
        format = self.sizes.weight_format if len(shape) == 2 else "f32"
        recipe: Recipe = Key(key=f"model.{name}")
        self.weights.append(Weight(name=name, shape=shape, format=format, recipe=recipe))
        return len(self.weights) - 1

    def node(
        self,
        id: str,
        op: str,
        ins: tuple[int, ...],
        outs: tuple[int, ...],
        *,
        role: str | None = None,
        weights: tuple[int, ...] = (),
        states: tuple[int, ...] = (),
        layer: int | None = None,
        section: str = "main",
        **params: Value,
    ) -> None:
        block = id.split(".")[1 if layer is not None else 0]
        made = Node(
            id=id,
            op=op,
            role=role,
            inputs=ins,
            outputs=outs,
            weights=weights,
            states=states,
            params=tuple(sorted(params.items())),
            layer=layer,
            block=block,
            section=section,
        )
        self.nodes.append(made)


def dense(sizes: Sizes) -> Tir:
    """The instance, with node ids as the circuit dense_gqa gives them."""
    b = _Builder(sizes)
    tokens, x = b.edge("tokens", 1, format="i32"), b.edge("embed.x", sizes.dim)
    b.node("embed.tokens", "embed", (tokens,), (x,), weights=(b.weight("embed.weight", sizes.vocab, sizes.dim),))
    for layer in range(sizes.layers):
        x = _mlp(b, layer, _attention(b, layer, x))
    picked, h = b.edge("head.picked", sizes.dim, rows="m"), b.edge("head.h", sizes.dim, rows="m")
    logits = b.edge("head.logits", sizes.vocab, rows="m")
    token, sampled = (b.edge(f"head.{name}", 1, rows="m", format="i32") for name in ("token", "sampled"))
    b.node("head.select", "index_select", (x,), (picked,))
    norm = (b.weight("head.norm.weight", sizes.dim),)
    b.node("head.norm", "rms_norm", (picked,), (h,), weights=norm, eps=sizes.eps, heads=1, weight_form="plain")
    head = (b.weight("head.logits.weight", sizes.vocab, sizes.dim),)
    b.node("head.logits", "linear", (h,), (logits,), role="head", weights=head, bias=False)
    b.node("head.argmax", "argmax", (logits,), (token,), section="greedy")
    b.node("head.sample", "sample", (logits,), (sampled,), section="sample")
    return Tir(
        arch="dense_gqa",
        context=sizes.context,
        dims=(("dim", sizes.dim), ("ff", sizes.ff), ("vocab", sizes.vocab)),
        edges=tuple(b.edges),
        weights=tuple(b.weights),
        states=tuple(b.states),
        nodes=tuple(b.nodes),
        inputs=(tokens,),
        outputs=(logits, token, sampled),
    )


def _attention(b: _Builder, layer: int, x: int) -> int:
    s, at = b.sizes, f"l{layer}.attn"
    q_dim, kv_dim = s.heads * s.head_dim, s.kv_heads * s.head_dim
    h = b.edge(f"{at}.h", s.dim)
    norm = (b.weight(f"{at}.norm.weight", s.dim),)
    b.node(f"{at}.norm", "rms_norm", (x,), (h,), weights=norm, layer=layer, eps=s.eps, heads=1, weight_form="plain")
    wires = {}
    for role, dim in (("q", q_dim), ("k", kv_dim), ("v", kv_dim)):
        wires[role] = b.edge(f"{at}.{role}", dim)
        weights = [b.weight(f"{at}.{role}.weight", dim, s.dim)]
        weights += [b.weight(f"{at}.{role}.bias", dim)] if s.qkv_bias else []
        b.node(
            f"{at}.{role}",
            "linear",
            (h,),
            (wires[role],),
            role=role,
            weights=tuple(weights),
            layer=layer,
            bias=s.qkv_bias,
        )
    for role, heads in (("q", s.heads), ("k", s.kv_heads)):
        if s.qk_norm:
            normed = b.edge(f"{at}.{role}_normed", heads * s.head_dim)
            weight = (b.weight(f"{at}.{role}_norm.weight", s.head_dim),)
            id, form = f"{at}.{role}_norm", "plain"
            b.node(
                id,
                "rms_norm",
                (wires[role],),
                (normed,),
                weights=weight,
                layer=layer,
                eps=s.eps,
                heads=heads,
                weight_form=form,
            )
            wires[role] = normed
    frequencies = tuple(s.theta ** (-2 * i / s.head_dim) for i in range(s.head_dim // 2))
    for role, heads in (("q", s.heads), ("k", s.kv_heads)):
        turned = b.edge(f"{at}.{role}_turned", heads * s.head_dim)
        b.node(
            f"{at}.rope_{role}",
            "rope",
            (wires[role],),
            (turned,),
            layer=layer,
            heads=heads,
            head_dim=s.head_dim,
            rotary_dim=s.head_dim,
            style="neox",
            inv_freq=frequencies,
            scale=1.0,
        )
        wires[role] = turned
    b.states.append(State(name=f"{at}.kv", kind="paged_kv", heads=s.kv_heads, head_dim=s.head_dim, format="f32"))
    kv = (len(b.states) - 1,)
    b.node(
        f"{at}.write",
        "kv_write",
        (wires["k"], wires["v"]),
        (),
        states=kv,
        layer=layer,
        heads=s.kv_heads,
        head_dim=s.head_dim,
    )
    a, d, y = b.edge(f"{at}.a", q_dim), b.edge(f"{at}.d", s.dim), b.edge(f"{at}.y", s.dim)
    b.node(
        f"{at}.attend",
        "attention",
        (wires["q"],),
        (a,),
        states=kv,
        layer=layer,
        heads=s.heads,
        kv_heads=s.kv_heads,
        head_dim=s.head_dim,
        window=s.window,
        scale=s.head_dim**-0.5,
        causal=True,
    )
    o = (b.weight(f"{at}.o.weight", s.dim, q_dim),)
    b.node(f"{at}.o", "linear", (a,), (d,), role="o", weights=o, layer=layer, bias=False)
    b.node(f"{at}.add", "residual_add", (x, d), (y,), layer=layer)
    return y


def _mlp(b: _Builder, layer: int, x: int) -> int:
    s, at = b.sizes, f"l{layer}.mlp"
    h, g, u, p = b.edge(f"{at}.h", s.dim), *(b.edge(f"{at}.{e}", s.ff) for e in ("g", "u", "p"))
    d, y = b.edge(f"{at}.d", s.dim), b.edge(f"{at}.y", s.dim)
    norm = (b.weight(f"{at}.norm.weight", s.dim),)
    b.node(f"{at}.norm", "rms_norm", (x,), (h,), weights=norm, layer=layer, eps=s.eps, heads=1, weight_form="plain")
    for role, out in (("gate", g), ("up", u)):
        weight = (b.weight(f"{at}.{role}.weight", s.ff, s.dim),)
        b.node(f"{at}.{role}", "linear", (h,), (out,), role=role, weights=weight, layer=layer, bias=False)
    b.node(f"{at}.glu", "glu", (g, u), (p,), layer=layer, kind="silu")
    down = (b.weight(f"{at}.down.weight", s.dim, s.ff),)
    b.node(f"{at}.down", "linear", (p,), (d,), role="down", weights=down, layer=layer, bias=False)
    b.node(f"{at}.add", "residual_add", (x, d), (y,), layer=layer)
    return y
