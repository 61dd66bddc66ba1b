"""`met recipe`: what is written is the golden file; what is checked, shown and verified; and running by a recipe."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from circuit_exec.host import this_host
from tests.cli.conftest import Home
from tests.cli.harness import Ran, refused
from tests.models import tiny_config, write_config
from tests.server.harness import serving

pytestmark = pytest.mark.slow

Golden = Callable[[str, str], None]
WRITE = ("recipe", "write", "model", "--hardware", "ryzen_9950x", "--context", "512", "--sequences", "2", "-n", "8")


@pytest.fixture(scope="module")
def recipe(home: Home) -> Path:
    """A recipe of the tiny model."""
    ran = home.met(*WRITE, "--threads", "2", "-o", "recipe.toml", PYTHONHASHSEED="1")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    return home.folder / "recipe.toml"


def masked(text: str) -> str:
    """Without what changes with every kernel that is made faster, and the class that this host runs."""
    text = re.sub(r'^("\w+:\d+-\d+") = "\w{64}"$', r'\1 = "(left out)"', text, flags=re.MULTILINE)
    return re.sub(r"made on class \w+\.", "made on class (left out).", text)


def plans_of(recipe: Path) -> list[str]:
    """The mode and rows of each plan that is recorded."""
    found = re.findall(r'^"(\w+:\d+-\d+)" = ', recipe.read_text(encoding="utf-8"), re.MULTILINE)
    assert {plan.partition(":")[0] for plan in found} == {"decode", "prefill"}
    return found


def altered(home: Home, recipe: Path, old: str, new: str) -> Path:
    """A copy of the recipe in which one thing is another."""
    text = recipe.read_text(encoding="utf-8")
    assert old in text, old
    path = home.folder / "altered.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_the_recipe_of_a_tiny_model_is_the_golden_one(recipe: Path, golden: Golden) -> None:
    golden("llama_tiny.ryzen_9950x.recipe.toml", masked(recipe.read_text(encoding="utf-8")))


def test_another_hash_seed_and_the_standard_output_give_the_same_bytes(home: Home, recipe: Path) -> None:
    ran = home.met(*WRITE, "--threads", "2", PYTHONHASHSEED="2")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == recipe.read_text(encoding="utf-8")


def test_a_goal_that_changes_bytes_says_so(home: Home) -> None:
    ran = home.met(*WRITE, "--goal", "latency", "--no-output")
    assert ran.code == 0, ran.err
    assert ran.err == "note: for latency, kv left the default policy: other bytes\n"
    assert 'kv = "int8"\n' in ran.out
    assert "# No output is recorded, so `met recipe verify` compares digests alone.\n" in ran.out


def test_a_bare_config_has_a_recipe_for_a_device_that_nothing_is_rendered_for(home: Home) -> None:
    (home.folder / "rented").mkdir()
    write_config(home.folder / "rented", tiny_config("llama"))
    ran = home.met("recipe", "write", "rented/config.json", "--hardware", "h200", "-o", "rented/recipe.toml")
    assert ran.code == 0, ran.err
    text = (home.folder / "rented/recipe.toml").read_text(encoding="utf-8")
    assert 'source = "config.json"\n' in text
    assert "# No plan is recorded: nothing renders class hopper yet.\n" in text
    assert "threads" not in text.partition("[resources]")[2].partition("[expect]")[0]
    assert home.met("recipe", "check", "rented/recipe.toml").code == 0
    ran = home.met("recipe", "verify", "rented/recipe.toml")
    assert (ran.code, ran.out.splitlines()[-1]) == (0, "verified: digests alone, no output is recorded"), ran.err


def test_a_recipe_that_is_right_is_checked(home: Home, recipe: Path) -> None:
    ran = home.met("recipe", "check", recipe)
    assert (ran.code, ran.out) == (0, f"{recipe}: llama on ryzen_9950x is well stated and fits\n"), ran.err


@pytest.mark.parametrize(
    ("old", "new", "message", "fix"),
    [
        (
            'hardware = "ryzen_9950x"',
            'hardware = "ryzen"',
            "there is no device `ryzen`",
            None,
        ),
        (
            "context = 512",
            "context = 2048",
            "a context of 2,048 positions, the model has 1,024",
            "write context = 1024 or less",
        ),
        ('source = "model"', 'source = "nowhere"', "there is no such file, directory or fetched model: nowhere", None),
        ('kv = "f32"', 'kv = "f64"', "policy kv has no value `f64`", "use one of: f32, f16, bf16, int8"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_at_its_line(
    home: Home, recipe: Path, old: str, new: str, message: str, fix: str | None
) -> None:
    path = altered(home, recipe, old, new)
    line = path.read_text(encoding="utf-8").splitlines().index(new) + 1
    refused(home.met("recipe", "check", path), message=message, at=f"{path}:{line}", fix=fix)


def test_a_recipe_that_is_not_there_is_refused(home: Home) -> None:
    fix = "give a recipe, as `met recipe write` writes it"
    refused(
        home.met("recipe", "check", "none.toml"),
        message="the recipe cannot be read: no such file or directory",
        fix=fix,
    )
    (home.folder / "bad.toml").write_bytes(b"\xff")
    refused(home.met("recipe", "check", "bad.toml"), message="the recipe cannot be read: it is not utf-8 text", fix=fix)


def test_a_checkpoint_that_is_another_one_is_refused(home: Home, recipe: Path) -> None:
    other = home.folder / "other"
    shutil.copytree(home.folder / "model", other)
    shutil.copy(recipe, home.folder / "moved.toml")
    path = altered(home, recipe, 'source = "model"', 'source = "other"')
    assert home.met("recipe", "check", path).code == 0

    def line(name: str) -> int:
        return next(n for n, text in enumerate(path.read_text("utf-8").splitlines(), 1) if text.startswith(name))

    config = other / "config.json"
    config.write_text(config.read_text("utf-8") + "\n", encoding="utf-8")
    ran = home.met("recipe", "check", path)
    assert ran.code == 2, ran.err
    found = hashlib.sha256(config.read_bytes()).hexdigest()
    assert f"error: config.json has the hash {found}, not the recorded one ({other})\n" in ran.err
    assert f" --> {path}:{line(chr(34) + 'config.json')}\n" in ran.err
    assert "fix: give the checkpoint that the recipe is for, or write the recipe anew\n" in ran.err
    config.unlink()
    shutil.copy(home.folder / "model/config.json", config)
    (other / "tokenizer_config.json").rename(other / "generation_config.json")
    ran = home.met("recipe", "check", path)
    assert f"error: the checkpoint has no file tokenizer_config.json ({other})\n" in ran.err
    expected = f"the checkpoint has a file generation_config.json that the recipe does not name ({other})"
    assert expected in ran.err
    assert "fix: remove it, or write the recipe anew\n" in ran.err


def test_show_prints_each_value_with_its_line_and_compares_the_digests(home: Home, recipe: Path) -> None:
    ran = home.met("recipe", "show", recipe)
    assert ran.code == 0, ran.err
    assert max(map(len, ran.out.splitlines())) <= 80
    line = recipe.read_text(encoding="utf-8").splitlines().index('kv = "f32"') + 1
    assert re.search(rf"^  policy\.kv +f32 +line {line}$", ran.out, re.MULTILINE), ran.out
    assert re.search(r"^  bytes +\w{16} +equal$", ran.out, re.MULTILINE)
    data = json.loads(home.met("recipe", "show", recipe, "--json").out)
    names = ["bytes", *(f"{plan} of class avx2" for plan in plans_of(recipe))]
    assert [each["name"] for each in data["digests"]] == names
    assert all(each["here"] == each["recorded"] for each in data["digests"])


def test_a_recipe_is_verified_with_other_threads_and_on_another_class(home: Home, recipe: Path) -> None:
    ran = home.met("recipe", "verify", recipe, "--threads", "1", "--class", "cpu")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0] == f"{recipe} on class cpu, 1 thread"
    assert lines[-1] == "verified"
    assert all(line.startswith(("  equal: ", "  not recorded: ")) for line in lines[1:-1])
    said = [line.split(": ")[1] for line in lines[1:-1]]
    plans = plans_of(recipe)
    assert [what for what in said if "avx2" in what] == [f"plan {plan} of class avx2" for plan in plans]
    assert said[-3:] == ["fingerprint", "output 1", "output 2"]
    assert sum(line.startswith("  not recorded: plan ") for line in lines) == len(plans)


def ids_of(text: str, name: str) -> tuple[str, str]:
    """The first list of that name as it is written, and its first id."""
    found = re.search(rf"^{name} = \[\s*(\d+)", text, re.MULTILINE)
    assert found is not None
    return found[0], found[1]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("bytes", "bytes: ", marks=pytest.mark.slow),
        pytest.param("fingerprint", "fingerprint: ", marks=pytest.mark.slow),
        (r"decode:1-\d+", "plan decode:1-"),
        pytest.param("text", "output 1: text: ", marks=pytest.mark.slow),
        ("logits", "output 1: logits: "),
    ],
)
def test_the_first_digest_that_differs_is_said_and_ends_with_1(home: Home, recipe: Path, name: str, said: str) -> None:
    text = recipe.read_text(encoding="utf-8")
    found = re.search(rf'^"?{name}"? = "(\w{{64}})"$', text, re.MULTILINE)
    assert found is not None
    path = altered(home, recipe, found[0], found[0].replace(found[1], "0" * 64))
    ran = home.met("recipe", "verify", path)
    assert ran.code == 1, ran.err
    last = ran.out.splitlines()[-1]
    assert last.startswith(f"  differs: {said}")
    assert last.endswith(f": recorded is {'0' * 64}, here is {found[1]}")


@pytest.mark.parametrize(("name", "said"), [("prompt_ids", "prompt token 0"), ("ids", "token 0")])
def test_the_first_token_that_differs_is_said(home: Home, recipe: Path, name: str, said: str) -> None:
    written, first = ids_of(recipe.read_text(encoding="utf-8"), name)
    path = altered(home, recipe, f"\n{written}", f"\n{written[: -len(first)]}999")
    ran = home.met("recipe", "verify", path)
    assert ran.code == 1, ran.err
    assert ran.out.splitlines()[-1] == f"  differs: output 1: {said}: recorded is 999, here is {first}"


def test_other_weights_differ(home: Home, recipe: Path) -> None:
    path = altered(home, recipe, '"model.safetensors" = "', '"model.safetensors" = "0')
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r'(safetensors" = ")(\w{64})\w', r"\1\2", text), encoding="utf-8")
    ran = home.met("recipe", "verify", path)
    assert (ran.code, ran.out.count("\n")) == (1, 2), ran.err
    assert ran.out.splitlines()[-1].startswith("  differs: checkpoint: model.safetensors has the hash ")


def test_a_recipe_that_records_nothing_is_not_verified(home: Home, recipe: Path) -> None:
    path = home.folder / "unrecorded.toml"
    path.write_text(recipe.read_text(encoding="utf-8").partition("[expect]")[0], encoding="utf-8")
    refused(
        home.met("recipe", "verify", path),
        message="the recipe records nothing that can be verified",
        at=str(path),
        fix="write it with `met recipe write`, which records",
    )


def run(home: Home, recipe: Path, *arguments: str) -> Ran:
    return home.met("run", "--recipe", recipe, "the cat", *arguments)


def test_a_recipe_runs_with_what_it_states(home: Home, recipe: Path) -> None:
    ran = run(home, recipe, "-n", "8", "--policy", "fuse.residual_add+rms_norm=on")
    assert ran.code == 0, ran.err
    assert ran.out == home.met("run", "model", "the cat", "-n", "8").out
    assert ran.err.endswith("2 threads\n")


@pytest.mark.parametrize(
    ("option", "message", "at", "fix"),
    [
        (
            "--threads=1",
            "--threads 1 contradicts the recipe, which states 2",
            "threads = 2",
            "leave out --threads, or change the recipe",
        ),
        (
            "--policy=kv=bf16",
            "--policy kv=bf16 contradicts the recipe, which states f32",
            'kv = "f32"',
            "leave out --policy, or change the recipe",
        ),
        (
            "--policy=speed=1",
            "--policy speed=1 contradicts the recipe, which states no such key",
            "[policy]",
            "leave out --policy, or change the recipe",
        ),
    ],
)
def test_an_option_that_contradicts_the_recipe_is_refused(
    home: Home, recipe: Path, option: str, message: str, at: str, fix: str
) -> None:
    line = recipe.read_text(encoding="utf-8").splitlines().index(at) + 1
    refused(run(home, recipe, option), message=message, at=f"{recipe}:{line}", fix=fix)


def test_a_recipe_for_what_this_host_is_not_does_not_run(home: Home, recipe: Path) -> None:
    path = altered(home, recipe, 'hardware = "ryzen_9950x"', 'hardware = "h200"')
    line = path.read_text(encoding="utf-8").splitlines().index('hardware = "h200"') + 1
    refused(
        run(home, path),
        message=f"class hopper is for sm_90, not for {this_host().machine}",
        at=f"{path}:{line}",
        fix="write a recipe for this machine, or see `met recipe verify`, which runs on another class",
    )


def test_no_threads_are_refused(home: Home, recipe: Path) -> None:
    ran = home.met("recipe", "verify", recipe, "--threads", "0")
    assert (ran.code, "error: 0 threads are asked for\n" in ran.err) == (2, True), ran.err


def test_more_than_the_recipes_context_is_refused(home: Home, recipe: Path) -> None:
    refused(
        home.met("run", "--recipe", recipe, "x" * 500, "--no-chat", "-n", "14"),
        message="the prompt has 500 tokens and 14 more are asked for, the context is 512",
    )


def test_a_recipe_states_the_model_and_the_bytes(home: Home, recipe: Path) -> None:
    refused(
        home.met("run", "--recipe", recipe, "model", "the cat"),
        message=f"the recipe {recipe} states the checkpoint, and MODEL is given too: model",
        fix="leave out MODEL or --recipe",
    )
    refused(home.met("run", "--recipe", recipe), message="missing argument 'PROMPT'", fix="see `met run --help`")
    digest = re.search(r'^bytes = "(\w{64})"$', recipe.read_text(encoding="utf-8"), re.MULTILINE)
    assert digest is not None
    path = altered(home, recipe, digest[0], f'bytes = "{"0" * 64}"')
    refused(
        run(home, path),
        message=f"the plan has the digest {digest[1]} of what changes bytes, not the recorded one",
        fix="see `met recipe verify`; where met itself changed, write the recipe anew",
    )


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["--threads", "17"], "--threads 17, ryzen_9950x has 16 cores", "give --threads 16 or less"),
        (["-o", "none/recipe.toml"], "the folder of the recipe does not exist", "make it: mkdir -p none"),
        (
            ["--hardware", "h200", "--threads", "1"],
            "--threads 1 for h200, which is no processor",
            "leave out --threads",
        ),
        (
            ["-o", "model"],
            "the recipe cannot be written: is a directory",
            "make room, or give -o a place that can be written",
        ),
    ],
)
def test_what_no_recipe_can_be_written_for_is_refused(home: Home, arguments: list[str], message: str, fix: str) -> None:
    refused(home.met(*WRITE, "--no-output", *arguments), message=message, fix=fix)


def test_a_server_takes_what_it_runs_from_the_recipe_and_refuses_what_contradicts_it(home: Home, recipe: Path) -> None:
    sequences = home.met("serve", "--recipe", recipe, "--max-num-seqs", "77")
    lines = recipe.read_text(encoding="utf-8").splitlines()
    at = next(line for line, text in enumerate(lines, start=1) if text.startswith("sequences = "))
    stated = lines[at - 1].partition(" = ")[2]
    refused(
        sequences,
        message=f"--max-num-seqs 77 contradicts the recipe, which states {stated}",
        at=f"{recipe}:{at}",
        fix="leave out --max-num-seqs, or change the recipe",
    )
    both = home.met("serve", "model", "--recipe", recipe)
    message = f"the recipe {recipe} states the checkpoint, and MODEL is given too: model"
    refused(both, message=message, fix="leave out MODEL or --recipe")
    refused(home.met("serve"), message="missing argument 'MODEL'", fix="see `met serve --help`")
    alone = altered(home, recipe, "threads = 2", "threads = 1")  # as the server is started in tests
    with serving(home.folder, "--recipe", str(alone)) as running:
        assert running.get("/v1/models").json()["data"][0]["id"] == "model"
        shown = running.get("/forward").json()
    assert shown["hardware_class"] == "avx2"  # of the device that the recipe names
