"""What is refused in a circuit and in a config map before any model uses them."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError, MetError
from circuit.load.circuit_file import circuit_names
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.inputs import Library
from tests.cases.texts import case, library, texts

CIRCUIT = "kernels/circuits/dense_gqa.toml"
ATTENTION = "kernels/circuits/blocks/gqa_attention.toml"
MLP = "kernels/circuits/blocks/glu_mlp.toml"
HEAD = "kernels/circuits/blocks/head.toml"
MAP = "kernels/circuits/dense_gqa.config.toml"


def edited(path: str, old: str, new: str) -> Library:
    """The library with one text of one file replaced, where it stands first."""
    files = []
    for source in library().files:
        if source.path == path:
            assert old in source.text, f"{path} has no {old}"
            source = replace(source, text=source.text.replace(old, new, 1))
        files.append(source)
    return Library(files=tuple(files))


def refusal(path: str, old: str, new: str) -> str:
    with pytest.raises(LoadError) as caught:
        load_circuit(edited(path, old, new), "dense_gqa")
    return str(caught.value)


def map_refusal(old: str, new: str) -> str:
    with pytest.raises(MetError) as caught:
        map_config(texts(case("qwen2")), edited(MAP, old, new))
    return str(caught.value)


def test_the_circuit_loads_with_its_blocks_in_order() -> None:
    circuit = load_circuit(library(), "dense_gqa")
    assert [block.name for block in circuit.blocks] == ["embed", "attn", "mlp", "head"]
    assert [kind.name for kind in circuit.kinds] == ["full", "sliding"]
    assert circuit_names(library()) == ("dense_gqa",)


@pytest.mark.parametrize(
    ("path", "old", "new", "message", "fix"),
    [
        (MLP, 'op = "glu"', 'op = "swish"', "mlp: `glu` has the unknown op `swish`", "use one of: embed, rms_norm,"),
        (MLP, 'format = "f32"', 'format = "f33"', "edge `h` has the unknown format `f33`", "use one of: f32, i32, f16"),
        (MLP, 'id = "up"', 'id = "gate"', "mlp: node `gate` is there twice", "rename one of the two"),
        (MLP, 'edge = "u"', 'edge = "g"', "mlp: edge `g` is written twice", "rename one of the two"),
        (MLP, 'reads = ["g", "u"]', 'reads = ["g", "z"]', "mlp: `glu` reads the edge `z`, which nothing", "write it"),
        (MLP, 'reads = ["g", "u"]', 'reads = ["g", "g"]', "mlp: edge `u` is neither read nor an output", "read it"),
        (MLP, 'shape = "n x ff"', 'shape = "n x fat"', "mlp: `gate` reads the undeclared dim `fat`", "declare `fat`"),
        (MLP, 'shape = "n x ff"', 'shape = "ff"', "edge `g` has the shape `ff`", "write `n x DIM` or `m x DIM`"),
        (MLP, 'shape = "n x ff"', 'shape = "n x ff-1"', "`ff-1` is no sum of products", "write a dim expression such"),
        (MLP, 'weight = "dim"', 'weight = "0"', "`0` is no sum of products of dims and positive", "write a dim"),
        (MLP, 'role = "up"', 'role = "upper"', "mlp: `up` has the role `upper`", "the roles of linear are: q, k, v, o"),
        (MLP, 'params = { kind = "{act}" }', "", "mlp: `glu` has the params none", "glu has: kind"),
        (MLP, 'kind = "{act}"', 'kind = "{acts}"', "mlp: `glu` reads the undeclared dim `acts`", "declare `acts` in"),
        (MLP, 'stream_out = "y"', 'stream_out = "w"', "mlp: the output edge `w` is never written", "write it or"),
        (
            MLP,
            'binding = { module = "{L}.post_attention_layernorm", weight = "dim" }\n',
            "",
            "mlp: `norm` has no binding",
            "rms_norm reads tensors: add `binding = { module = ..., weight = ... }`",
        ),
        (
            MLP,
            'binding = { module = "{L}.post_attention_layernorm", weight = "dim" }',
            'binding = { module = "x", weight = "dim", bias = "dim" }',
            "mlp: `norm` binds weight, bias",
            "rms_norm reads: weight",
        ),
        (MLP, '"g", "u"', '"g"', "mlp: `glu` has 1 inputs and 1 outputs", "glu takes 2 and gives 1"),
        (
            ATTENTION,
            'state = "kv"',
            'state = "kw"',
            "attn: `write` reads the state `kw`, which the block has not",
            "decl",
        ),
        (ATTENTION, 'state = "kv"\n', "", "attn: `write` has no state", "kv_write needs one"),
        (
            CIRCUIT,
            '"glu_mlp"',
            '"gelu_mlp"',
            "there is no block file `gelu_mlp`",
            "include one of: embed, glu_mlp, gqa_",
        ),
        (
            CIRCUIT,
            '["attn", "mlp"]',
            '["attn", "moe"]',
            "block `moe` does not exist",
            "use one of: attn, embed, head, mlp",
        ),
        (
            HEAD,
            "[block.head]",
            "[block.head2]\nnode = []\n\n[block.head]",
            "block `head2` is used by no layer kind",
            "remove",
        ),
        (
            HEAD,
            'same_as = "norm"',
            'same_as = "normed"',
            "head: `norm_hidden` binds the same as `normed`, which binds nothing before it",
            "name an earlier node that does",
        ),
        (
            HEAD,
            '"model.norm", weight = "dim", same_as',
            '"model.other", weight = "dim", same_as',
            "head: `norm_hidden` binds the same as `norm`, but another module or other tensors",
            "write the binding of `norm`",
        ),
        (CIRCUIT, 'epilogue = ["head"]', "", "missing key `epilogue`", "add `epilogue = ...`"),
        (CIRCUIT, "schema = 1", "schema = 2", "`schema`: input should be 1", "correct the value of `schema`"),
        (MLP, 'op = "glu"', 'op = "glu"\nopp = 1', "unknown key `block.mlp.node[3].opp`", "remove or rename `opp`"),
    ],
)
def test_a_broken_circuit_is_refused_with_file_and_fix(path: str, old: str, new: str, message: str, fix: str) -> None:
    error = refusal(path, old, new)
    assert f"error: {message}" in error
    assert f" --> {path}" in error
    assert f"  = fix: {fix}" in error


def test_a_problem_of_a_node_names_its_line() -> None:
    line = next(s.text for s in library().files if s.path == MLP).split("\n").index('op = "glu"') - 1
    assert refusal(MLP, 'op = "glu"', 'op = "swish"').startswith(
        f"error: mlp: `glu` has the unknown op `swish`\n --> {MLP}:{line}\n  | [[block.mlp.node]]\n"
    )


def test_a_block_in_two_files_and_an_unknown_circuit_are_refused() -> None:
    twice = '[block.mlp]\nstream_in = "x"\nstream_out = "x"\nnode = []\n\n[layout.full]'
    assert "error: block `mlp` is defined twice" in refusal(CIRCUIT, "[layout.full]", twice)
    with pytest.raises(LoadError) as caught:
        load_circuit(library(), "dense_mha")
    assert str(caught.value) == (
        "error: there is no circuit `dense_mha`; these exist: dense_gqa\n  = fix: add kernels/circuits/dense_mha.toml"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('hidden_size = { dim = "dim" }', "hidden_size = {}", "key `hidden_size` has 0 classes"),
        ('{ dim = "dim" }', '{ dim = "dim", ignore = "x" }', "key `hidden_size` has 2 classes"),
        ('{ dim = "dim" }', '{ dim = "width" }', "key `hidden_size` gives `width`, which does not exist"),
        ('{ dim = "dim" }', '{ ignore = "" }', "key `hidden_size` gives no reason"),
        ('object = "rope"', 'object = "ropes"', "key `rope_scaling` gives `ropes`, which does not exist"),
        (', why = "there is no encoder" }', " }", "key `is_encoder_decoder` requires a value without saying why"),
        (
            'or_div = ["dim", "heads"]',
            'or_div = ["dim", "eps"]',
            "`head_dim` refers to `eps`, which is not a fact above",
        ),
        ('start = "window_from"', 'start = "begin"', "`layers` refers to `begin`, which is no fact"),
        ("[variant.mistral.dims]", "[variant.mixtral.dims]", "variant `mixtral` is no model type"),
        ("default = 11008", 'default = 11008, unit = "x"', "unknown key `dims.ff.unit`"),
        (
            '"qwen2", "qwen3"]',
            '"qwen2", "qwen2"]',
            "the model type `qwen2` is mapped in kernels/circuits/dense_gqa.conf",
        ),
    ],
)
def test_a_broken_config_map_is_refused(old: str, new: str, message: str) -> None:
    error = map_refusal(old, new)
    assert f"error: {message}" in error
    assert f" --> {MAP}" in error


@pytest.mark.parametrize(
    ("old", "new", "fix"),
    [
        ("[variant.mistral.dims]", "[variant.mixtral.dims]", "rename or remove it"),
        ('{ dim = "dim" }', '{ dim = "width" }', "declare it under dims, params, run or objects"),
        ('"qwen2", "qwen3"]', '"qwen2", "qwen2"]', "map it once"),
    ],
)
def test_a_broken_config_map_is_refused_with_what_to_do(old: str, new: str, fix: str) -> None:
    assert f"\n  = fix: {fix}" in map_refusal(old, new)


def test_a_fact_may_list_the_values_that_it_allows() -> None:
    allowed = edited(MAP, "vocab = { default = 151936 }", "vocab = { default = 151936, allowed = [290, 300] }")
    assert map_config(texts(case("qwen2")), allowed)
    with pytest.raises(LoadError) as caught:
        map_config(texts(case("qwen2", vocab_size=310)), allowed)
    assert "error: `vocab_size` is 310\n" in str(caught.value)
    assert "  = fix: use one of: 290, 300" in str(caught.value)
