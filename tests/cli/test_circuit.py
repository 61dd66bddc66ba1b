"""`met circuit`: the ledger and every stage, for people and for programs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.harness import ENTRY, Ran, met, refused, settings
from tests.models import tiny_config, write_config


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("planning")
    write_config(path, tiny_config("llama"))
    return path


def show(folder: Path, *arguments: str) -> Ran:
    return met("circuit", "show", "config.json", *arguments, home=folder)


def test_the_map_prints_every_key_with_what_became_of_it(folder: Path) -> None:
    ran = met("circuit", "map", "config.json", home=folder)
    assert ran.code == 0, ran.err
    for key in tiny_config("llama"):
        assert f"\n  {key} = " in ran.out, key
    assert "default of llama, transformers 5.24.0" in ran.out


def test_the_map_as_json_holds_every_key(folder: Path) -> None:
    data = json.loads(met("circuit", "map", "config.json", "--json", home=folder).out)
    assert set(tiny_config("llama")) <= {entry["key"] for entry in data["keys"]}


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("bir", ["dim heads 4", "step l1.mlp.down"]),
        ("tir", ["linear", "l1.mlp.down"]),
        ("groups", ["decode, rows 1-1", "rms_norm+linear_gate_up"]),
        ("plan", ["digest ", "part bytes", "certificate"]),
        ("source", ["static void met_plan_0", "static void met_plan_1"]),
    ],
)
def test_each_stage_prints_its_text(folder: Path, stage: str, words: list[str]) -> None:
    ran = show(folder, "--stage", stage)
    assert (ran.code, ran.err) == (0, "")
    assert [word for word in words if word not in ran.out] == []


def test_the_plan_as_json_has_the_digest_and_the_parts_of_the_text(folder: Path) -> None:
    data, text = json.loads(show(folder, "--json", "--rows", "1").out), show(folder, "--rows", "1").out
    assert f"\ndigest {data['digest']}\n" in text
    for name, value in data["parts"].items():
        assert f"\npart {name:<10} {value}\n" in text


def test_mode_and_rows_are_those_that_are_asked_for(folder: Path) -> None:
    data = json.loads(show(folder, "--json", "--mode", "prefill", "--rows", "1-128").out)
    assert (data["mode"], data["rows"]) == ("prefill", [1, 128])


def test_expand_prints_more_launches_and_the_same_digest(folder: Path) -> None:
    folded, unfolded = show(folder).out, show(folder, "--expand").out
    assert len(unfolded.splitlines()) > len(folded.splitlines())
    assert folded.splitlines()[1] == unfolded.splitlines()[1]


def test_reference_rules_change_the_plan_but_not_the_part_bytes(folder: Path) -> None:
    fused, plain = (
        json.loads(show(folder, "--json", "--rows", "1").out),
        json.loads(show(folder, "--json", "--rows", "1", "--rules", "reference").out),
    )
    assert fused["digest"] != plain["digest"]
    assert fused["parts"]["bytes"] == plain["parts"]["bytes"]
    assert len(fused["launches"]) < len(plain["launches"])


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["--rows", "9-3"], "--rows 9-3 is no range", "give LO-HI, as in --rows 1-64"),
        (["--rows", "a"], "--rows a is no range", "give LO-HI, as in --rows 1-64"),
        (["--stage", "tir", "--json"], "--json is for the plan, not for --stage tir", "leave out --json or --stage"),
        (["--stage", "bir", "--expand"], "--expand is for the plan, not for --stage bir", None),
        (["--json", "--expand"], "--json prints every launch already", "leave out --expand"),
        (
            ["--policy", "speed=high"],
            "unknown policy key `speed`",
            "the keys are: activations, kv, parity, speculation",
        ),
        (["--stage", "none"], None, "see `met circuit show --help`"),
        (["--frob"], "no such option: --frob", "see `met circuit show --help`"),
    ],
)
def test_a_wrong_option_is_refused(folder: Path, arguments: list[str], message: str | None, fix: str | None) -> None:
    ran = show(folder, *arguments)
    refused(ran, message=message or ran.err.splitlines()[0].removeprefix("error: "), fix=fix)


def test_an_unknown_class_lists_what_exists(folder: Path) -> None:
    ran = show(folder, "--class", "abacus")
    assert ran.code == 2
    assert "abacus" in ran.err
    assert "cpu" in ran.err


def test_a_reader_that_stops_early_ends_it_quietly(folder: Path) -> None:
    command = f'"{sys.executable}" -c "{ENTRY}" circuit show config.json --stage source | head -n 1'
    ran = subprocess.run(
        command, shell=True, cwd=folder, env=settings(folder), capture_output=True, text=True, check=False, timeout=120
    )
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "")


def test_why_tells_the_rule_of_a_node_for_every_plan(folder: Path) -> None:
    ran = met("circuit", "why", "config.json", "l1.attn.rope_q", home=folder)
    assert ran.code == 0, ran.err
    plans = (
        "decode, rows 1-1; decode, rows 2-2; decode, rows 3-4; decode, rows 5-8; decode, rows 9-64; prefill, rows 1-512"
    )
    assert ran.out.startswith(f"l1.attn.rope_q (rope) in {plans}\n")
    ran = met("circuit", "why", "config.json", "l1.attn.o", "--mode", "decode", "--rows", "3-4", "--json", home=folder)
    assert [(plan["mode"], plan["rows"]) for plan in json.loads(ran.out)["plans"]] == [("decode", [3, 4])]


def test_why_refuses_a_node_that_is_not_there(folder: Path) -> None:
    ran = met("circuit", "why", "config.json", "l1.attn.oo", home=folder)
    fix = "give one of them; `met circuit show MODEL --stage tir` lists all nodes"
    refused(ran, message="there is no node `l1.attn.oo`; the nearest are l1.attn.o", fix=fix)
