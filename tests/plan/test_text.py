"""The plan's text and JSON: folding says no more and no less than the launches do."""

import json
import re

from msgspec.structs import replace

from circuit.plan.as_json import plan_json
from circuit.plan.text import WIDTH, plan_text, unfolded_text
from tests.lower.dense import Sizes, dense
from tests.plan.plans import planned

PLAN = planned(dense(Sizes(layers=4)))


def headings(text: str) -> list[str]:
    """The lines that say which layers and launches follow."""
    return re.findall(r"^layer .*$", text, flags=re.MULTILINE)


def test_equal_layers_are_printed_once_with_their_range() -> None:
    assert headings(plan_text(PLAN)) == [
        "layer i = 0 (1x): launches 1-10",
        "layer i = 1-2 (2x): launches 11-28",
        "layer i = 3 (1x): launches 29-36",
    ]


def test_names_in_a_folded_layer_are_relative_to_it() -> None:
    lines = plan_text(PLAN).splitlines()
    at = lines.index("layer i = 1-2 (2x): launches 11-28")
    assert lines[at + 1 : at + 5] == [
        "    linear_qkv k2 panel_linear.p48_r8_streamed bit_identical [l{i}.attn.q l{i}.attn.k l{i}.attn.v]",
        "      reads $n l{i}.attn.h",
        "      writes l{i}.attn.q+k+v",
        "      weights l{i}.attn.q+k+v.weight:bf16",
    ]
    body = "\n".join(lines[at : lines.index("layer i = 3 (1x): launches 29-36")])
    assert "bit_identical [l{i}.mlp.add l{i+1}.attn.norm]" in body
    assert "reads $n l{i-1}.mlp.y l{i}.attn.d" in body


def test_layers_that_take_turns_are_folded_too() -> None:
    """Layers 1, 3 and 5 have a window, layers 0, 2 and 4 do not."""
    tir = dense(Sizes(layers=6))
    nodes = tuple(
        replace(n, params=tuple((k, 40 if k == "window" and n.layer % 2 else v) for k, v in n.params))
        if n.op == "attention" and n.layer is not None
        else n
        for n in tir.nodes
    )
    assert headings(plan_text(planned(replace(tir, nodes=nodes)))) == [
        "layer i = 0 (1x): launches 1-10",
        "layer i = 1, 3 (2x): launches 11-19, 29-37",
        "layer i = 2, 4 (2x): launches 20-28, 38-46",
        "layer i = 5 (1x): launches 47-54",
    ]


def test_unfolded_every_launch_has_a_line_and_every_buffer_its_place() -> None:
    lines = unfolded_text(PLAN).splitlines()
    launches = [line for line in lines if re.match(r" *\d+ ", line)]
    assert [int(line.split()[0]) for line in launches] == list(range(len(PLAN.launches)))
    assert launches[2].strip() == (
        "2 linear_qkv k2 panel_linear.p48_r8_streamed bit_identical [l0.attn.q l0.attn.k l0.attn.v]"
    )
    assert len([line for line in lines if line.startswith("buffer b")]) == len(PLAN.buffers)
    assert f"at {PLAN.buffers[1].offset_bytes} bytes {PLAN.buffers[1].n_bytes} alive 1-2" in "\n".join(lines)


def test_no_line_is_wider_than_the_page() -> None:
    for text in (plan_text(PLAN), unfolded_text(PLAN)):
        assert [line for line in text.splitlines() if len(line) > WIDTH] == []


def test_the_head_has_the_policy_and_every_part_of_the_digest() -> None:
    lines = plan_text(PLAN).splitlines()
    assert lines[0] == "plan of dense_gqa on class cpu: decode, rows 3-8, context 1024"
    assert lines[1] == f"digest {PLAN.digest}"
    assert lines[2] == "policy activations=f32 kv=f32 parity=portable speculation=none"
    names = "bytes class formats kernels parameters policy rules run step structure".split()
    assert [line.split()[1] for line in lines[3:13]] == names


def test_json_has_the_digest_the_parts_and_every_launch() -> None:
    data = json.loads(plan_json(PLAN))
    assert data["digest"] == PLAN.digest
    assert data["parts"] == dict(PLAN.parts)
    assert [launch["members"] for launch in data["launches"]] == [list(launch.members) for launch in PLAN.launches]
    assert data["launches"][0]["targets"][1] == {"slot": "step", "step": "tokens"}
    assert {"slot": "in", "buffer": 2, "column": 64} in [t for launch in data["launches"] for t in launch["targets"]]
