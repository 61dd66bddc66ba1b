"""`met circuit diff`: its report, its exit codes, and what it refuses."""

import json

import numpy as np
import pytest

from circuit_exec.diff.compare import Comparison, Difference, Where
from circuit_exec.diff.run import Must, Pair, Report
from circuit_exec.diff.sides import Side
from cli.diff_text import report_json, report_text
from tests.cli.conftest import Home
from tests.cli.harness import refused

BASE = Side(rules="all", policy=(), threads=1, chunk=None, steps=0)
OTHER = Side(rules="reference", policy=(), threads=2, chunk=7, steps=3)
EQUAL = """\
30 tokens; logits compared at positions: all
first side: rules=all policy=default threads=1 chunk=30 steps=0

repeat of the same side: must be equal
  equal: 8700 elements of 1 edge

control, token 29 is 275 in place of 274: must differ
"""


def difference(**changes: object) -> Report:
    """A report with one pair that differs."""
    at = Where(step=2, mode="prefill", row=5, launch=11, rule="linear", members=("l3.attn.o",))
    values: dict[str, object] = {
        "edge": "l3.attn.d",
        "format": "f32",
        "position": 133,
        "column": 17,
        "words": (0x3F000000, 0x3F000003),
        "ulps": 3,
        "n_different": 4,
        "n_elements": 4096,
        "at": (at, at),
    }
    first = Difference(**(values | changes))  # type: ignore[arg-type]
    found = Comparison(n_edges=36, only=(2, 1), n_elements=9000, n_different=44, first=first)
    must: Must = "be equal"
    pair = Pair(name="side", one=BASE, other=OTHER, must=must, found=found)
    return Report(n_tokens=4, asked=(1, 3), changed=(3, 5, 6), pairs=(pair,), against=None)


def test_a_run_that_holds_says_so_and_ends_with_0(home: Home) -> None:
    ran = home.met("circuit", "diff", "model", "--positions", "30", "--threads", "1,2", "--chunk", "30,7")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(EQUAL)
    assert "\nthreads=2 chunk=7: must be equal\n  equal: 8700 elements of 1 edge\n" in ran.out
    assert ran.out.endswith("\nevery check holds\n")


def test_every_list_makes_its_sides(home: Home) -> None:
    lists = ("--rules", "all,reference", "--policy", "default,kv=f32+parity=portable", "--steps", "0,5")
    ran = home.met("circuit", "diff", "model", "--positions", "3,19", *lists, "--json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    assert (data["holds"], data["tokens"], data["positions"]) == (True, 20, [3, 19])
    assert data["control"]["position"] == 19
    assert [(p["name"], p["must"], p["different"] > 0) for p in data["pairs"]] == [
        ("repeat", "be equal", False),
        ("control", "differ", True),
        *[("side", "be equal", False)] * 7,
    ]
    sides = [tuple(p["other"][key] for key in ("rules", "policy", "steps")) for p in data["pairs"][2:]]
    stated = "kv=f32+parity=portable"
    assert sides == [
        ("all", "default", "5"),
        ("all", stated, "0"),
        ("all", stated, "5"),
        ("reference", "default", "0"),
        ("reference", "default", "5"),
        ("reference", stated, "0"),
        ("reference", stated, "5"),
    ]
    assert {p["elements"] for p in data["pairs"]} == {2 * 290}


def test_tokens_of_a_file_and_logits_of_the_same_run_agree(home: Home) -> None:
    (home.folder / "ids.txt").write_text(" ".join(str(i * 7 % 290) for i in range(40)))
    made = home.met("logits", "model", "--tokens", "ids.txt", "--out", "diff.npy")
    assert made.code == 0, made.err
    arguments = ("circuit", "diff", "model", "--tokens", "ids.txt", "--against", "diff.npy", "--tolerance", "0")
    ran = home.met(*arguments, "--positions", "3,39", "--json")
    assert ran.code == 0, ran.err
    data = json.loads(ran.out)
    assert (data["holds"], data["positions"], data["tokens"]) == (True, [3, 39], 40)
    assert data["against"]["largest"] == 0.0
    assert data["against"]["same_argmax"] == 2
    assert [pair["name"] for pair in data["pairs"]] == ["repeat", "control"]
    np.save(home.folder / "wrong.npy", np.load(home.folder / "diff.npy") + np.float32(2))
    ran = home.met("circuit", "diff", "model", "--tokens", "ids.txt", "--against", "wrong.npy", "--tolerance", "1.5")
    assert ran.code == 1
    assert ran.err == ""
    assert "wrong.npy: must be within 1.5\n  same most likely token at 40 of 40 positions\n" in ran.out
    assert "  FAILED: it must be within 1.5; at 40 of 40 positions it is not, first at 0\n" in ran.out
    assert ran.out.endswith("\n1 of the checks failed\n")


def test_the_first_difference_is_told_with_both_values_their_bits_and_their_distance() -> None:
    assert report_text(difference()) == (
        "4 tokens; logits compared at positions: 1, 3\n"
        "first side: rules=all policy=default threads=1 chunk=most steps=0\n"
        "\n"
        "rules=reference threads=2 chunk=7 steps=3: must be equal\n"
        "  44 of 9000 elements of 36 edges differ (skipped: 2 edges only in the first, 1 edge only in the other)\n"
        "  first: l3.attn.d at position 133, column 17: 0.5 (0x3f000000) and 0.500000179 (0x3f000003); 3 ulp apart\n"
        "    in the first:  step 2 (prefill), row 5; launch 11: linear [l3.attn.o]\n"
        "    in the other:  step 2 (prefill), row 5; launch 11: linear [l3.attn.o]\n"
        "    4 of the 4096 elements of this edge differ there\n"
        "  FAILED: it must be equal\n"
        "\n"
        "1 of the checks failed\n"
    )


def test_a_value_that_is_no_number_has_no_distance_and_is_text_in_json() -> None:
    report = difference(words=(0x3F000000, 0x7FC00000), ulps=None)
    assert "0.5 (0x3f000000) and nan (0x7fc00000); one is no number\n" in report_text(report)
    found = json.loads(report_json(report))["pairs"][0]["difference"]
    assert (found["values"], found["words"], found["ulps"]) == ([0.5, "nan"], ["0x3f000000", "0x7fc00000"], None)


def test_an_integer_edge_shows_integers() -> None:
    report = difference(format="i32", words=(7, 0xFFFFFFFF), ulps=None)
    assert "column 17: 7 (0x00000007) and -1 (0xffffffff)\n" in report_text(report)


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (("--rules", "some"), "--rules has `some`, which is no rule set", "use reference, all or both"),
        (("--rules", "all,all"), "--rules has the same entry twice", "give each entry once"),
        (("--threads", "1,,2"), "--threads has an empty entry", "separate the entries by single commas"),
        (("--threads", "0"), "--threads has `0`", "give whole numbers from 1, separated by commas"),
        (("--chunk", "x"), "--chunk has `x`", "give whole numbers from 1, separated by commas"),
        (
            ("--steps", "65"),
            "--steps 65 is more than there are tokens",
            "give fewer steps, or more --positions",
        ),
        (("--tolerance", "-1"), "--tolerance -1.0 is no tolerance", "give a number from 0"),
        (("--tolerance", "nan"), "--tolerance nan is no tolerance", "give a number from 0"),
        (("--positions", "0"), "--positions has `0`", "give whole numbers from 1, separated by commas"),
        (("--chunk", "513"), "the chunk is 513 rows, a prefill step has 1 to 512", "give --chunk in that range"),
        (
            ("--positions", "1025"),
            "the prompt has 1025 tokens, the context is 1024",
            "shorten the prompt to 1024 tokens or fewer",
        ),
        (("--policy", "kv"), "policy `kv` is not KEY=VALUE", "the keys are: activations, kv, parity, speculation"),
    ],
)
def test_what_cannot_be_compared_is_refused(home: Home, arguments: tuple[str, ...], message: str, fix: str) -> None:
    refused(home.met("circuit", "diff", "model", *arguments), message=message, fix=fix)


def test_more_positions_than_tokens_are_refused(home: Home) -> None:
    (home.folder / "three.txt").write_text("1 2 3")
    ran = home.met("circuit", "diff", "model", "--tokens", "three.txt", "--positions", "0,3")
    message = "--positions asks for position 3, the file has 3 tokens"
    refused(ran, message=message, fix="give fewer positions, or a longer file")
