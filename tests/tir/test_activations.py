"""The policy `activations`: which projections read codes, where the codes are made, and what is said of the others."""

import pytest
from msgspec.structs import replace

from circuit.errors import PlanError
from circuit.load.policy import Policy, with_choices
from circuit.plan.digest import bytes_part, meanings
from circuit.sigma.storage_coded import CODED_FORMATS
from circuit.text import Source
from circuit.tir.activations import activation_notes, why_not_coded, with_activations
from circuit.tir.ir import Node, Tir
from circuit.tir.text import parse_tir, tir_text
from circuit.tir.verify import verify
from tests.lower.dense import Sizes, dense
from tests.plan.plans import POLICY

INT8 = with_choices(POLICY, ["activations=int8/g32"])
SIZES = Sizes(layers=2)


def stored(format: str, **of_roles: str) -> Tir:
    """A circuit of f32 rows, its projections stored in a format, some roles in another."""
    tir = dense(SIZES)
    formats = {node.weights[0]: of_roles.get(node.role or "", format) for node in linears(tir)}
    weights = (replace(w, format=formats.get(place, w.format)) for place, w in enumerate(tir.weights))
    return replace(tir, weights=tuple(weights))


def linears(tir: Tir) -> list[Node]:
    return [node for node in tir.nodes if node.op == "linear"]


def reads(tir: Tir, role: str) -> set[str]:
    """The formats of the rows that projections of a role read."""
    return {tir.edges[node.inputs[0]].format for node in linears(tir) if node.role == role}


def test_without_the_policy_nothing_changes() -> None:
    tir = stored("q4_1")
    assert with_activations(tir, POLICY) is tir
    assert activation_notes(tir, POLICY) == ()


@pytest.mark.parametrize("format", CODED_FORMATS)
def test_each_coded_format_is_served(format: str) -> None:
    tir = with_activations(stored(format), INT8)
    assert {tir.edges[node.inputs[0]].format for node in linears(tir)} == {"int8_g32"}
    assert activation_notes(tir, INT8) == ("activations: 15 of 15 projections read int8_g32 rows",)


def test_projections_of_one_row_share_its_codes_which_stand_before_the_first_of_them() -> None:
    tir = with_activations(stored("q4_1"), INT8)
    makers = [node.id for node in tir.nodes if node.op == "act_quant"]
    layer = ["attn.h", "attn.a", "mlp.h", "mlp.p"]
    assert makers == [*(f"l{n}.{edge}.act_quant" for n in range(2) for edge in layer), "head.h.act_quant"]
    names = [node.id for node in tir.nodes]
    assert names.index("l0.attn.h.act_quant") + 1 == names.index("l0.attn.q")


def test_a_projection_of_another_format_goes_on_reading_f32_rows_and_the_plan_says_why() -> None:
    tir = with_activations(stored("q4_1", head="f16", k="q6_k", v="q6_k"), INT8)
    assert reads(tir, "head") == reads(tir, "k") == {"f32"}
    assert reads(tir, "q") == {"int8_g32"}
    assert activation_notes(tir, INT8) == (
        "activations: 10 of 15 projections read int8_g32 rows",
        "activations: l0.attn.k and 3 more read f32 rows: a weight stored as q6_k is not codes under one scale for "
        "each 32 inputs, as q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k are",
        "activations: head.logits read f32 rows: a weight stored as f16 is not codes under one scale for each 32 "
        "inputs, as q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q5_k are",
    )


def test_a_circuit_that_reads_codes_already_is_left_as_it_is() -> None:
    once = with_activations(stored("q4_1", head="f16"), INT8)
    assert with_activations(once, INT8) == once
    coded = next(node for node in linears(once) if node.role == "q")
    assert why_not_coded(once, coded) == "it reads int8_g32 already"


def test_the_text_of_such_a_circuit_reads_back() -> None:
    tir = with_activations(stored("q5_k"), INT8)
    assert parse_tir(Source(path="t.tir", text=tir_text(tir))) == tir


def digest(tir: Tir, policy: Policy) -> str:
    return bytes_part(meanings(tir), policy, ())


def test_the_digest_of_the_bytes_tells_policies_and_codings_apart_and_nothing_else() -> None:
    one = with_activations(stored("q4_1"), INT8)
    assert digest(one, INT8) != digest(stored("q4_1"), POLICY)
    assert digest(one, INT8) != digest(with_activations(stored("q4_0"), INT8), INT8)
    assert digest(one, INT8) == digest(with_activations(stored("q5_1"), INT8), INT8)  # codes, scales and minima alike
    assert digest(stored("q4_1"), POLICY) == digest(stored("q8_0"), POLICY)


def test_a_row_that_is_no_whole_groups_and_a_format_that_is_none_are_refused() -> None:
    tir = with_activations(stored("q4_1"), INT8)
    place = next(place for place, node in enumerate(tir.nodes) if node.op == "act_quant")
    node = tir.nodes[place]
    edges = list(tir.edges)
    for edge in (*node.inputs, *node.outputs):
        edges[edge] = replace(edges[edge], dim=40)
    nodes = list(tir.nodes)
    nodes[place] = replace(node, params=(("format", "f32"),))
    with pytest.raises(PlanError) as error:
        verify(replace(tir, edges=tuple(edges), nodes=tuple(nodes)))
    said = [p.message for p in error.value.problems if p.message.startswith(node.id)]
    assert f"{node.id}: 40 values are not whole groups of 32" in said
    assert f"{node.id}: format is f32, int8_g32 is expected" in said
