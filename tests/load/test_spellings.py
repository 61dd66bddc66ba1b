"""Two spellings of one fact give the same facts; two that differ are refused; a key that is read changes the facts."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circuit.errors import LoadError
from circuit.load.source import Plain
from tests.cases.texts import MODEL_TYPES, Config, case, facts, mapped, refusal, tir_of, without

ROPES: list[Config] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.0},
    {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 128,
    },
    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256},
    {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 256,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 1.0,
        "mscale_all_dim": 0.7,
        "truncate": False,
    },
]


@settings(deadline=None, max_examples=40)
@given(
    model_type=st.sampled_from(MODEL_TYPES),
    rope=st.sampled_from(ROPES),
    theta=st.sampled_from([10000, 500000, 1000000]),
    new_style=st.booleans(),
    theta_inside=st.booleans(),
    as_type=st.booleans(),
    as_int=st.booleans(),
    new_dtype=st.booleans(),
    original_at_top=st.booleans(),
    nulls=st.booleans(),
)
def test_all_spellings_of_a_config_give_the_same_facts(
    model_type: str,
    rope: Config,
    theta: int,
    new_style: bool,
    theta_inside: bool,
    as_type: bool,
    as_int: bool,
    new_dtype: bool,
    original_at_top: bool,
    nulls: bool,
) -> None:
    plain = without(case(model_type), "rope_scaling", "rope_parameters", "rope_theta", "torch_dtype", "dtype")
    expected = facts(plain | {"rope_theta": theta, "rope_scaling": dict(rope), "torch_dtype": "bfloat16"})
    spelled, inner = dict(plain), {key: _number(value, as_int) for key, value in rope.items()}
    if as_type:
        inner["type"] = inner.pop("rope_type")
    if original_at_top and "original_max_position_embeddings" in inner:
        spelled["original_max_position_embeddings"] = inner.pop("original_max_position_embeddings")
    (inner if theta_inside else spelled)["rope_theta"] = _number(float(theta), as_int)
    spelled["rope_parameters" if new_style else "rope_scaling"] = inner
    spelled["dtype" if new_dtype else "torch_dtype"] = "bfloat16"
    if nulls:
        spelled["torch_dtype" if new_dtype else "dtype"] = None
        spelled["rope_scaling" if new_style else "rope_parameters"] = None
    assert facts(spelled) == expected


def _number(value: Plain, as_int: bool) -> Plain:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return int(value) if as_int and float(value).is_integer() else float(value)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_whole_floats_are_integers_and_key_order_is_nothing(model_type: str) -> None:
    config = case(model_type)
    floats = {
        key: float(value) if isinstance(value, int) and not isinstance(value, bool) and "token" not in key else value
        for key, value in config.items()
        if key != "pretraining_tp"
    }
    assert facts(dict(reversed(floats.items()))) == facts(config)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"rope_parameters": {"rope_theta": 10000.0}},
            "`rope_theta` and `rope_parameters.rope_theta` say the same thing in two ways and differ: "
            "500000.0 and 10000.0",
        ),
        (
            {"rope_scaling": {"rope_type": "linear", "type": "yarn", "factor": 2.0}},
            "`rope_scaling.rope_type` and `rope_scaling.type` say the same thing in two ways and differ: "
            '"linear" and "yarn"',
        ),
        ({"dtype": "float32"}, "`torch_dtype` and `dtype` say the same thing in two ways and differ"),
        ({"bias": True}, "`attention_bias` and `bias` say the same thing in two ways and differ: false and true"),
        (
            {"original_max_position_embeddings": 64},
            "`rope_scaling.original_max_position_embeddings` and `original_max_position_embeddings` say the same",
        ),
    ],
)
def test_two_spellings_that_differ_are_refused(changes: Config, message: str) -> None:
    error = refusal(case("llama", **changes))
    assert error.count("error:") == 1
    assert message in error
    assert "  = fix: keep the right one, remove the other" in error


def test_two_spellings_that_agree_are_accepted() -> None:
    config = case("llama", dtype="bfloat16", bias=False)
    config["rope_parameters"] = {"rope_theta": 500000, "type": "llama3", "factor": 8}
    assert facts(config) == facts(case("llama"))


YARN: Config = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 256,
    "beta_fast": 4.0,
    "beta_slow": 2.0,
    "truncate": False,
    "mscale": 1.0,
    "mscale_all_dim": 0.7,
    "rope_theta": 10000.0,
    "partial_rotary_factor": 1.0,
}
CASES = {
    **{name: case(name) for name in MODEL_TYPES},
    "yarn": without(case("llama", rope_parameters=YARN, head_dim=64), "rope_scaling", "rope_theta"),
    "yarn with its factor": without(
        case("llama", rope_parameters=YARN | {"attention_factor": 0.9}, head_dim=64), "rope_scaling", "rope_theta"
    ),
    "linear": case("mistral", rope_scaling={"type": "linear", "factor": 2.0}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_key_that_is_said_to_be_used_changes_the_facts_or_is_refused(name: str) -> None:
    config = CASES[name]
    before, ledger = mapped(config)
    used = [entry for entry in ledger.entries if entry.kind in ("dim", "param", "run") and entry.line is not None]
    assert len(used) > 10
    for entry in used:
        assert any(_changes(config, entry.key, odd, before) for odd in _odd(_get(config, entry.key))), entry.key
    for entry in ledger.entries:
        if entry.kind == "ignore" and entry.line is not None and entry.key != "model_type":
            for odd in _odd(_get(config, entry.key))[:1]:
                assert not _changes(config, entry.key, odd, before), entry.key


def _changes(config: Config, key: str, value: Plain, before: object) -> bool:
    try:
        return facts(_set(config, key, value)) != before
    except LoadError:
        return True


def _odd(value: Plain) -> list[Plain]:
    """Values of the same type that a reader of the key must notice."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value * 2, value + 1, value * 64]
        case float():
            return [value * 1.5]
        case str():
            return ["float32" if value == "bfloat16" else "bfloat16", "linear"]
        case list():
            return [[*value, 99]]
        case _:
            return [3]


def _get(config: Config, key: str) -> Plain:
    value: Plain = config
    for part in key.split("."):
        assert isinstance(value, dict)
        value = value[part]
    return value


def _set(config: Config, key: str, value: Plain) -> Config:
    outer, _, inner = key.rpartition(".")
    if not outer:
        return config | {key: value}
    table = config[outer]
    assert isinstance(table, dict)
    return config | {outer: table | {inner: value}}


values: st.SearchStrategy[Plain] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=4,
)


@settings(deadline=None, max_examples=150)
@given(data=st.data(), model_type=st.sampled_from(MODEL_TYPES), value=values)
def test_any_value_of_any_key_maps_or_is_refused_but_never_fails_otherwise(
    data: st.DataObject, model_type: str, value: Plain
) -> None:
    config = case(model_type, rope_parameters=dict(data.draw(st.sampled_from(ROPES))))
    config = without(config, "rope_scaling", *(["rope_theta"] if model_type == "qwen3" else []))
    table = config["rope_parameters"]
    assert isinstance(table, dict)
    key = data.draw(st.sampled_from([*config, *(f"rope_parameters.{name}" for name in table)]))
    with suppress(LoadError):
        tir_of(_set(config, key, value))
