"""Recipes: what is refused, in which words and on which line; and that the recipes of the project load."""

from pathlib import Path

import pytest

from circuit.errors import LoadError
from circuit.load.owners import owners
from circuit.load.policy import KEYS, Key
from circuit.load.recipe import choices, load_recipe
from circuit.load.rules import Gate
from circuit.text import Source
from tests.lower.library import ROOT, own_library

LIBRARY = own_library()
HASH = "ab" * 32
TEXT = f"""\
schema = 1

[metadata]
title = "tiny"
why = "a test"
author = "nobody"

[checkpoint]
source = "model"
files = {{ "model.safetensors" = "{HASH}" }}

[policy]
activations = "f32"
kv = "int8"
parity = "portable"
speculation = "none"

[resources]
hardware = "epyc_9654"
sequences = 2
context = 512
reserved_bytes = 0
threads = 4

[expect]
bytes = "{HASH}"

[expect.plans.avx2]
"decode:1-2" = "{HASH}"

[[expect.output]]
prompt = "a"
chat = false
temperature = 0.0
top_p = 1.0
seed = 0
n = 2
prompt_ids = [1]
ids = [2, 3]
ended = "length"
text = "{HASH}"
logits = "{HASH}"
"""


def problems(text: str) -> list[tuple[int | None, str, str]]:
    """Line, message and fix of all that is wrong."""
    with pytest.raises(LoadError) as error:
        load_recipe(Source(path="recipe.toml", text=text), LIBRARY)
    assert {problem.file for problem in error.value.problems} == {"recipe.toml"}
    return [(problem.line, problem.message, problem.fix) for problem in error.value.problems]


def changed(old: str, new: str) -> str:
    assert TEXT.count(old) == 1, old
    return TEXT.replace(old, new)


def test_a_recipe_is_read_with_every_value() -> None:
    recipe = load_recipe(Source(path="recipe.toml", text=TEXT), LIBRARY)
    assert choices(recipe) == ("activations=f32", "kv=int8", "parity=portable", "speculation=none")
    assert (recipe.resources.hardware, recipe.resources.sequences, recipe.resources.threads) == ("epyc_9654", 2, 4)
    assert recipe.expect is not None
    assert recipe.expect.plans == (("avx2", "decode:1-2", HASH),)
    assert [(output.prompt_ids, output.ids) for output in recipe.expect.outputs] == [((1,), (2, 3))]


@pytest.mark.parametrize(
    ("old", "new", "line", "message", "fix"),
    [
        (
            'kv = "int8"\n',
            "",
            12,
            "missing policy key `kv`: the storage format of keys and values",
            'state one of: kv = "f32", kv = "f16", kv = "bf16", kv = "int8"',
        ),
        ('kv = "int8"', "kv = 8", 14, "policy kv is no text", 'write one of: kv = "f32", kv = "f16", kv = "bf16", kv'),
        ('kv = "int8"', 'kv = "int4"', 14, "policy kv has no value `int4`", "use one of: f32, f16, bf16, int8"),
        (
            'parity = "portable"',
            'parity = "class"',
            15,
            "policy parity = class is not implemented yet",
            "use parity=portable",
        ),
        (
            'speculation = "none"',
            'speculation = "draft"',
            16,
            "policy speculation has no value `draft`",
            "use one of: none",
        ),
        (
            'speculation = "none"',
            'speculation = "none"\n"fuse.rms_norm+linear" = "off"',
            17,
            "`fuse.rms_norm+linear` is the compiler's: it chooses among equal bytes",
            "remove it; to try it, give the command --policy fuse.rms_norm+linear=on or =off",
        ),
        (
            'speculation = "none"',
            'speculation = "none"\nweather = "fine"',
            17,
            "unknown policy key `weather`",
            "keys: activations, kv, parity, speculation",
        ),
        (
            "context = 512",
            "context = 512\ncontexts = 3",
            22,
            "unknown key `resources.contexts`",
            "rename it to `context`",
        ),
        (
            "schema = 1",
            "schema = 1\nweather = 2",
            2,
            "unknown key `weather`",
            "remove it; the keys here are: schema, metadata, checkpoint, policy, resources, expect",
        ),
        ("seed = 0", "seed = 0\nsed = 1", 37, "unknown key `expect.output[0].sed`", "rename it to `seed`"),
        (
            'source = "model"',
            'source = "model"\nhidden_size = 64',
            10,
            "`checkpoint.hidden_size` restates the architecture, which the checkpoint says "
            "(kernels/circuits/dense_gqa.config.toml)",
            "remove `hidden_size`: a recipe states no architecture",
        ),
        ("context = 512", 'context = "512"', 21, "`resources.context`: input should be a valid integer", None),
        (HASH + '" }', 'zz" }', 10, "`checkpoint.files.model.safetensors`: string should match pattern", None),
        ("threads = 4", "threads = 0", 23, "`resources.threads`: input should be greater than or equal to 1", None),
    ],
)
def test_what_is_wrong_is_named_with_its_line_and_fix(
    old: str, new: str, line: int, message: str, fix: str | None
) -> None:
    ((found_line, found, found_fix),) = problems(changed(old, new))
    assert (found_line, found[: len(message)]) == (line, message)
    assert fix is None or found_fix.startswith(fix)


def test_a_misspelt_policy_key_is_missing_and_unknown() -> None:
    assert [(line, message) for line, message, _ in problems(changed("activations =", "activation ="))] == [
        (12, "missing policy key `activations`: what a projection reads: the f32 row, or codes and scales of it"),
        (13, "unknown policy key `activation`"),
    ]
    assert ("rename it to `activations`") in [fix for _, _, fix in problems(changed("activations =", "activation ="))]


def test_a_section_of_the_architecture_is_named_with_its_keys() -> None:
    found = problems(TEXT + "\n[model]\nnum_hidden_layers = 2\n")
    assert [(line, message.partition(",")[0]) for line, message, _ in found] == [
        (44, "unknown key `model`"),
        (45, "`model.num_hidden_layers` restates the architecture"),
    ]


def test_a_key_that_the_rules_make_the_compilers_must_not_be_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = Key(name="tried", why="a test", read_by=None, implemented=("a",), effects=("",), planned=())
    gate = Gate(key="tried", rule="r", numerics="bit_identical", file="FUSIONS.toml", line=1)
    before = owners(KEYS, ())
    monkeypatch.setattr("circuit.load.recipe.load_owners", lambda library: (*before, *owners((tried,), (gate,))))
    load_recipe(Source(path="recipe.toml", text=TEXT), LIBRARY)
    stated = changed('speculation = "none"', 'speculation = "none"\ntried = "a"')
    assert problems(stated) == [(17, "`tried` is the compiler's: it chooses among relations only: r", "remove it")]


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/*.toml")), ids=lambda path: path.stem)
def test_a_recipe_of_the_project_states_what_it_must(path: Path) -> None:
    recipe = load_recipe(Source(path=path.name, text=path.read_text("utf-8")), LIBRARY)
    assert recipe.expect is not None
    assert recipe.expect.outputs
