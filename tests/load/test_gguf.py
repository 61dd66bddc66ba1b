"""GGUF metadata gives the facts of the config it was made from; its refusals; names and row orders."""

import pytest
from msgspec.structs import replace

from circuit.errors import LoadError
from circuit.front.blocks import blocks
from circuit.load.circuits import load_circuit
from circuit.load.config import map_config
from circuit.load.facts import Facts, Naming
from circuit.load.inputs import GgufKey, GgufTexts, GgufValue, TensorInfo
from circuit.load.ledger import Ledger
from circuit.load.source import Length
from circuit.text import round_f32
from circuit.tir.bind import bind
from circuit.tir.instantiate import instantiate
from circuit.tir.ir import Key, Unpermute
from tests.cases.texts import Config, case, facts, library, without

Metadata = dict[str, GgufValue]


def metadata(arch: str, **changes: GgufValue | None) -> Metadata:
    """What a converter writes for the tiny config of `arch`; names in `changes` have `_` for `.` after the arch."""
    keys: Metadata = {
        "general.architecture": arch,
        "general.type": "model",
        "general.name": "Tiny",
        "general.license.link": "x",
        "general.file_type": 3,
        "general.quantization_version": 2,
        f"{arch}.block_count": 2,
        f"{arch}.context_length": 1024,
        f"{arch}.embedding_length": 64,
        f"{arch}.feed_forward_length": 96,
        f"{arch}.attention.head_count": 4,
        f"{arch}.attention.head_count_kv": 2,
        f"{arch}.attention.layer_norm_rms_epsilon": round_f32(1e-5),
        f"{arch}.rope.freq_base": 500000.0,
        f"{arch}.rope.dimension_count": 16,
        f"{arch}.vocab_size": 290,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tuple(f"t{place}" for place in range(290)),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 7,
    }
    for name, value in changes.items():
        key = name.replace("__", ".")
        if value is None:
            del keys[key]
        else:
            keys[key] = value
    return keys


VOCABULARIES: tuple[GgufValue, ...] = (tuple(f"t{place}" for place in range(290)), Length(290))


def tensors(*extra: str, tied: bool) -> tuple[TensorInfo, ...]:
    """The names alone matter to the map."""
    names = ["token_embd.weight", "output_norm.weight", *([] if tied else ["output.weight"]), *extra]
    return tuple(TensorInfo(name=name, format="f32", shape=(1,)) for name in names)


def mapped(
    keys: Metadata, found: tuple[TensorInfo, ...], factors: tuple[float, ...] | None = None
) -> tuple[Facts, Ledger]:
    entries = tuple(GgufKey(key=key, type="any", value=value) for key, value in keys.items())
    return map_config(GgufTexts(path="m.gguf", metadata=entries, tensors=found, rope_factors=factors), library())


def refusal(keys: Metadata, factors: tuple[float, ...] | None = None) -> str:
    with pytest.raises(LoadError) as caught:
        mapped(keys, tensors(tied=True), factors)
    return str(caught.value)


def plain(found: Facts) -> Facts:
    """Without what differs on purpose: where formats and names come from."""
    return replace(found, format="", naming=Naming())


def test_llama_metadata_gives_the_facts_of_its_config() -> None:
    config = without(case("llama"), "rope_scaling")
    assert plain(mapped(metadata("llama"), tensors(tied=True))[0]) == plain(facts(config))
    untied = plain(mapped(metadata("llama"), tensors(tied=False))[0])
    assert untied == plain(facts(config | {"tie_word_embeddings": False}))


def test_qwen_metadata_gives_the_facts_of_its_config() -> None:
    shared: Config = {
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000,
        "bos_token_id": 1,
        "eos_token_id": [2, 7],
        "num_hidden_layers": 2,
        "use_sliding_window": False,
        "layer_types": None,
    }
    qwen2 = mapped(metadata("qwen2", qwen2__rope__dimension_count=None), tensors(tied=False))[0]
    assert plain(qwen2) == plain(facts(without(case("qwen2"), "rope_scaling") | shared))
    keys = metadata(
        "qwen3",
        qwen3__rope__dimension_count=None,
        qwen3__attention__key_length=24,
        qwen3__attention__value_length=24,
    )
    qwen3 = mapped(keys, tensors(tied=False))[0]
    assert plain(qwen3) == plain(facts(without(case("qwen3"), "rope_parameters") | shared))


def test_of_a_long_vocabulary_the_length_is_enough() -> None:
    listed, counted = (mapped(metadata("llama", tokenizer__ggml__tokens=t), tensors(tied=True)) for t in VOCABULARIES)
    assert dict(counted[0].dims)["vocab"] == 290
    assert counted == listed


def test_yarn_metadata_gives_the_facts_of_its_config() -> None:
    yarn: Metadata = {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 256,
        "llama.rope.scaling.finetuned": True,
    }
    config = case("llama", rope_scaling={"type": "yarn", "factor": 4, "original_max_position_embeddings": 256})
    assert plain(mapped(metadata("llama") | yarn, tensors(tied=True))[0]) == plain(facts(config))


def test_rope_factors_of_a_tensor_divide_the_frequencies() -> None:
    before = dict(mapped(metadata("llama"), tensors(tied=True))[0].params)["inv_freq"]
    factors = (1.0, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0)
    found, ledger = mapped(metadata("llama"), tensors("rope_freqs.weight", tied=True), factors)
    after = dict(found.params)["inv_freq"]
    assert isinstance(before, tuple)
    assert after == tuple(value / factor for value, factor in zip(before, factors, strict=True))
    (entry,) = [each for each in ledger.entries if each.key == "rope factors"]
    assert entry.why == "a tensor of the file divides the frequencies one by one"
    error = refusal(metadata("llama"), (1.0,) * 7)
    assert error.startswith("error: the file has 7 rope factors for 8 frequencies of the kind default\n --> m.gguf\n")
    assert "for 8 frequencies of the kind linear" in refusal(
        metadata("llama", llama__rope__scaling__type="linear", llama__rope__scaling__factor=2.0), factors
    )


def test_biases_and_ties_are_read_off_the_tensors() -> None:
    found, ledger = mapped(metadata("llama"), tensors("blk.0.attn_q.bias", tied=False))
    dims = dict(found.dims)
    assert (dims["qkv_bias"], dims["o_bias"], dims["mlp_bias"], dims["tied"]) == (1, 0, 0, 0)
    (entry,) = [each for each in ledger.entries if "qkv_bias" in each.became]
    assert (entry.kind, entry.why) == ("tensor", "blk.0.attn_q.bias is there")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"llama__expert_count": 8}, "`llama.expert_count` is 8; only 0 is supported: a mixture of experts is"),
        ({"llama__attention__sliding_window": 64}, "`llama.attention.sliding_window` is refused (64): llama.cpp reads"),
        ({"llama__surprise": 1}, "unknown key `llama.surprise` for model type llama"),
        ({"llama__vocab_size": 291}, "`llama.vocab_size` and `tokenizer.ggml.tokens` say the same thing in two ways"),
        ({"llama__rope__dimension_count": 8}, "`llama.rope.dimension_count` is 8, `llama.attention.key_length` is 16"),
        ({"llama__attention__head_count_kv": (2, 1)}, "`llama.attention.head_count_kv` is [2, 1]"),
        ({"llama__attention__head_count_kv": Length(1025)}, "`llama.attention.head_count_kv` is [1025 values]"),
        ({"tokenizer__ggml__eos_token_id": Length(1025)}, "`tokenizer.ggml.eos_token_id` is [1025 values]"),
        ({"llama__block_count": None}, "`llama.block_count` is missing"),
        ({"general__type": "adapter"}, '`general.type` is "adapter"; only "model" is supported: adapters and'),
        ({"llama__rope__scaling__type": "longrope"}, '`llama.rope.scaling.type` is "longrope", which is refused: its'),
        ({"general__architecture": "gemma"}, 'the file has the architecture "gemma", which has no circuit'),
        ({"general__architecture": None}, "the file has no `general.architecture`"),
    ],
)
def test_metadata_that_is_not_meant_is_refused_by_name(changes: dict[str, GgufValue | None], message: str) -> None:
    error = refusal(metadata("llama", **changes))
    assert f"error: {message}" in error
    assert " --> m.gguf\n" in error


def test_a_key_that_is_there_twice_is_refused() -> None:
    entries = tuple(GgufKey(key=key, type="any", value=value) for key, value in metadata("llama").items())
    twice = GgufTexts(path="m.gguf", metadata=(*entries, entries[3]), tensors=tensors(tied=True))
    with pytest.raises(LoadError) as caught:
        map_config(twice, library())
    assert str(caught.value) == (
        "error: metadata key `general.license.link` is there twice\n --> m.gguf\n  = fix: use an undamaged file"
    )


def test_names_are_those_of_the_file_and_llama_rows_are_put_back() -> None:
    for arch in ("llama", "qwen2"):
        keys = metadata(arch, **{f"{arch}__rope__dimension_count": None})
        found, ledger = mapped(keys, tensors(tied=True))
        tir = instantiate(blocks(load_circuit(library(), found.arch), found))
        weights = {weight.name: weight for weight in tir.weights}
        q, k, v = (Key(key=f"blk.1.attn_{name}.weight") for name in ("q", "k", "v"))
        if arch == "llama":
            assert weights["l1.attn.q.weight"].recipe == Unpermute(of=q, heads=4)
            assert weights["l1.attn.k.weight"].recipe == Unpermute(of=k, heads=2)
        else:
            assert weights["l1.attn.q.weight"].recipe == q
            assert weights["l1.attn.k.weight"].recipe == k
            assert weights["l1.attn.q.bias"].recipe == Key(key="blk.1.attn_q.bias")
        assert weights["l1.attn.v.weight"].recipe == v
        assert {weight.format for weight in tir.weights} == {"file"}
        stored = tuple(
            TensorInfo(
                name=(weight.recipe.of if isinstance(weight.recipe, Unpermute) else weight.recipe).key,  # type: ignore[union-attr]
                format="q8_0" if len(weight.shape) == 2 and weight.shape[1] % 32 == 0 else "f32",
                shape=weight.shape,
            )
            for weight in tir.weights
        )
        factors = TensorInfo(name="rope_freqs.weight", format="f32", shape=(8,))
        bound = bind(tir, (*stored, factors), ledger)
        assert {weight.format for weight in bound.tir.weights} == {"q8_0", "f32"}
        assert [name for name, _ in bound.ignored] == ["rope_freqs.weight"]
