"""The manifest: places, text form, digest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuit.bake.layout import PANEL_FORMATS, layout_of, n_words
from circuit.bake.manifest import build_manifest, manifest_digest, manifest_text, parse
from circuit.bake.recipe_text import RecipeError, parse_recipe, recipe_text
from circuit.errors import LoadError
from circuit.text import Source
from circuit.tir.ir import SCHEMES, Concat, Key, Quantized, Recipe, Unpermute, Weight

QKV = Concat(parts=(Unpermute(of=Key(key="q"), heads=3), Unpermute(of=Key(key="k"), heads=1), Key(key="v")))
WEIGHTS = (
    Weight(name="embed", shape=(100, 64), format="q8_0", recipe=Key(key="token_embd.weight")),
    Weight(name="l0.norm", shape=(3,), format="bf16", recipe=Key(key="norm")),
    Weight(name="l0.attn.qkv", shape=(5, 3), format="bf16", recipe=QKV),
)

FOLLOWS = "the line does not follow from its weights, which give"
names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]) | st.sampled_from('"\\\n\t,()')
)
recipes: st.SearchStrategy[Recipe] = st.recursive(
    names.map(lambda name: Key(key=name)),
    lambda inner: (
        st.builds(lambda of, heads: Unpermute(of=of, heads=heads), inner, st.integers(1, 99))
        | st.builds(
            Quantized,
            scheme=st.sampled_from(SCHEMES),
            codes=names,
            scales=names,
            zeros=st.none() | names.filter(bool),
            order=st.none() | names.filter(bool),
            rows=st.integers(1, 999),
            columns=st.integers(1, 999),
            zero=st.integers(0, 15),
        )
        | st.builds(lambda parts: Concat(parts=tuple(parts)), st.lists(inner, min_size=1, max_size=4))
    ),
    max_leaves=6,
)


def test_the_text_names_layout_place_and_recipe() -> None:
    assert manifest_text(build_manifest(WEIGHTS, 4, (("lm_head.weight", "embed.weight"),))) == (
        "manifest 3 panel 4 bytes 6976\n"
        'equal "lm_head.weight" "embed.weight"\n'
        'weight "embed" q8_0 panel 100x64 at 0 bytes 6800 <- "token_embd.weight"\n'
        'weight "l0.norm" bf16 vector 3 at 6848 bytes 12 <- "norm"\n'
        'weight "l0.attn.qkv" bf16 panel 5x3 at 6912 bytes 64 <- concat(unpermute(3, "q"), unpermute(1, "k"), "v")\n'
    )


def test_entries_lie_in_order_at_multiples_of_64_bytes_and_never_overlap() -> None:
    manifest = build_manifest(WEIGHTS, 4)
    end = 0
    for entry in manifest.entries:
        assert entry.offset_bytes % 64 == 0
        assert end <= entry.offset_bytes < end + 64
        end = entry.offset_bytes + entry.n_bytes
    assert manifest.n_bytes % 64 == 0
    assert end <= manifest.n_bytes < end + 64


@given(
    st.lists(
        st.builds(
            lambda name, shape, format, recipe: Weight(name=name, shape=shape, format=format, recipe=recipe),
            names,
            st.tuples(st.integers(1, 99)) | st.tuples(st.integers(1, 99), st.integers(1, 9).map(lambda n: 32 * n)),
            st.sampled_from(PANEL_FORMATS),
            recipes,
        ),
        unique_by=lambda weight: weight.name,
        max_size=5,
    ),
    st.integers(1, 64),
    st.lists(st.tuples(names, names), max_size=2),
)
def test_the_text_form_reads_back(weights: list[Weight], panel: int, equal: list[tuple[str, str]]) -> None:
    manifest = build_manifest(tuple(weights), panel, tuple(equal))
    assert parse(Source(path="m", text=manifest_text(manifest))) == manifest


@given(recipes)
def test_a_recipe_reads_back(recipe: Recipe) -> None:
    assert parse_recipe(recipe_text(recipe)) == recipe


@pytest.mark.parametrize(
    "text", ["", "q", '"q', '"q" "k"', "concat()", 'concat("q"', 'unpermute("q")', 'unpermute(3, "q"', 'swap("q")']
)
def test_what_is_no_recipe_is_refused(text: str) -> None:
    with pytest.raises(RecipeError):
        parse_recipe(text)


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("manifest 3", "manifest 1", 1, "not a line of a manifest"),
        ("bytes 6976", "bytes 6912", 1, f"{FOLLOWS} `manifest 3 panel 4 bytes 6976`"),
        ("q8_0", "q8_k", 2, "not a line of a manifest"),
        ("panel 100x64", "vector 100x64", 2, "not a line of a manifest"),
        ("at 6848", "at 6784", 3, f'{FOLLOWS} `weight "l0.norm" bf16 vector 3 at 6848 bytes 12 <- "norm"`'),
        ("concat(", "join(", 4, "not a line of a manifest"),
    ],
)  # fmt: skip
def test_a_changed_manifest_is_refused_by_line(old: str, new: str, line: int, message: str) -> None:
    text = manifest_text(build_manifest(WEIGHTS, 4))
    assert text.count(old) == 1
    with pytest.raises(LoadError) as caught:
        parse(Source(path="weights.manifest", text=text.replace(old, new)))
    (problem,) = caught.value.problems
    assert (problem.file, problem.line, problem.message) == ("weights.manifest", line, message)
    assert problem.fix == "write the manifest again with the plan that it belongs to"


def test_an_empty_manifest_is_refused() -> None:
    with pytest.raises(LoadError, match="the manifest is empty"):
        parse(Source(path="m", text=""))


def test_the_digest_depends_on_panel_order_recipe_and_pairs() -> None:
    digests = [
        manifest_digest(build_manifest(WEIGHTS, 4)),
        manifest_digest(build_manifest(WEIGHTS, 8)),
        manifest_digest(build_manifest(WEIGHTS[::-1], 4)),
        manifest_digest(build_manifest(WEIGHTS, 4, (("a", "b"),))),
        manifest_digest(
            build_manifest((*WEIGHTS[:2], Weight(name="w", shape=(5, 3), format="bf16", recipe=Key(key="w"))), 4)
        ),
    ]
    assert len(set(digests)) == len(digests)
    assert digests[0] == manifest_digest(build_manifest(WEIGHTS, 4))


def test_sizes_follow_the_layout() -> None:
    assert n_words("panel", "f32", (5, 3), 4) == 2 * 3 * 4
    assert n_words("panel", "bf16", (5, 3), 4) == 2 * 2 * 4
    assert n_words("panel", "q8_0", (5, 96), 4) == 2 * 2 * 17 * 4
    assert n_words("panel", "q4_0", (5, 96), 4) == 2 * 2 * 9 * 4
    assert n_words("panel", "q4_1", (5, 96), 4) == 2 * 3 * 5 * 4
    assert n_words("vector", "bf16", (5,), 4) == 5
    assert layout_of((5,)) == "vector"
    assert layout_of((5, 3)) == "panel"
