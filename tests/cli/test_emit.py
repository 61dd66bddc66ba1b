"""`met emit`: the folder builds without a warning, gives the same bytes as met, and refuses by name."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from tests.cli.conftest import Home
from tests.cli.harness import Ran, leftovers, refused
from tests.demo import demo_file

STRICT = "CFLAGS=-std=c11 -pedantic -Wall -Wextra -Werror -O1"


class Emitted(Struct, frozen=True, kw_only=True):
    """A folder that `met emit` wrote and make built, and what the command printed."""

    folder: Path
    said: str = ""

    def run(self, *arguments: str) -> Ran:
        """Runs its program."""
        command: list[Path | str] = [self.folder / "model", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        return Ran(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def built(folder: Path, *more: str) -> Emitted:
    done = subprocess.run(["make", "-j2", *more], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return Emitted(folder=folder)


@pytest.fixture(scope="module")
def emitted(home: Home) -> Emitted:
    ran = home.met("emit", "model", "-o", "program", "--json")
    assert ran.code == 0, ran.err
    return replace(built(home.folder / "program", STRICT, "model", "bench"), said=ran.out)


@pytest.fixture
def weights(emitted: Emitted) -> Iterator[Callable[[bytes | None], Path]]:
    """Puts other bytes in the place of the weights, or none; the true ones come back afterwards."""
    path, kept = emitted.folder / "weights.bin", emitted.folder / "kept.bin"
    path.rename(kept)

    def put(data: bytes | None) -> Path:
        if data is not None:
            path.write_bytes(data)
        return kept

    yield put
    path.unlink(missing_ok=True)
    kept.rename(path)


@pytest.mark.parametrize(
    "options",
    [(), ("--no-chat",), ("--temperature", "0.9", "--top-p", "0.8", "--seed", "12345678901"), ("--threads", "1")],
    ids=" ".join,
)
def test_words_equal_those_of_met_run(home: Home, emitted: Emitted, options: tuple[str, ...]) -> None:
    for prompt in ("Hello, world", "  12 naïve\nthey'll 日本 👍🏽<|im_end|>"):
        expected = home.met("run", "model", prompt, "-n", "40", *options)
        assert expected.code == 0, expected.err
        ran = emitted.run(prompt, "-n", "40", *options)
        assert (ran.code, ran.out) == (0, expected.out), ran.err
        assert ran.err.startswith("prefill ")


def test_logits_equal_those_of_met_on_any_threads_and_chunks(home: Home, emitted: Emitted) -> None:
    ids = [str(place * 7919 % 290) for place in range(70)]
    (home.folder / "ids.txt").write_text(" ".join(ids))
    expected = home.met("logits", "model", "--tokens", "ids.txt", "--out", "logits.npy")
    for options in ((), ("--threads", "1", "--chunk", "3")):
        ran = emitted.run("--ids", ",".join(ids), "--logits-hash", *options)
        assert (ran.code, ran.out) == (0, expected.out)


def test_ids_go_in_and_out(emitted: Emitted) -> None:
    asked = emitted.run("--encode", "Hello, world").out.split()
    by_words = emitted.run("Hello, world", "-n", "9", "--print-ids")
    by_ids = emitted.run("--ids", ",".join(asked), "-n", "9", "--print-ids")
    assert by_ids.out == by_words.out
    assert 0 < len(by_ids.out.split()) <= 9


def test_a_prompt_may_look_like_an_option(emitted: Emitted) -> None:
    assert len(emitted.run("--encode", "--no-chat", "--", "-n").out.split()) == 2


def test_files_are_those_of_the_manifest(home: Home, emitted: Emitted) -> None:
    check = ["make", "check"]
    assert subprocess.run(check, cwd=emitted.folder, capture_output=True, check=False).returncode == 0
    steps = emitted.folder / "steps.c"
    text = steps.read_text()
    steps.write_text(text + " ")
    assert subprocess.run(check, cwd=emitted.folder, capture_output=True, check=False).returncode != 0
    steps.write_text(text)
    manifest = (emitted.folder / "manifest.txt").read_text()
    plan = home.met("circuit", "show", "model").out
    digest = next(line.split()[-1] for line in manifest.splitlines() if line.startswith("plan decode "))
    assert digest in plan
    assert 'chat before "<|im_start|>user\\n" after "<|im_end|>\\n<|im_start|>assistant\\n"\n' in manifest
    assert "certificate threads: yes (" in manifest


def test_bench_measures_both(emitted: Emitted) -> None:
    ran = subprocess.run([emitted.folder / "bench"], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert [line.split(":")[0] for line in ran.stdout.splitlines()] == [
        "prefill 512 tokens",
        "decode 128 tokens after 32",
        "threads",
    ]


@pytest.mark.parametrize(
    ("arguments", "message", "fix"),
    [
        (["--bogus"], "there is no option --bogus", "see --help"),
        (["--threads"], "option --threads needs a value", "see --help"),
        ([], "there is no prompt", "give one in quotes, or token ids with --ids"),
        (["--"], "there is no prompt", "give a prompt after --"),
        (["a", "b"], "there is a second prompt: b", "put the prompt in quotes"),
        (["a", "--ids", "1"], "there is a prompt, and ids too", "leave one of them out"),
        (["--ids", "1;2"], "--ids is 1;2", "give token ids with commas between them: --ids 1,2,3"),
        (["--ids", "1,290"], "token id 290 is outside 0 to 289", "use the tokenizer of this model"),
        (["--ids", "-1"], "token id -1 is outside 0 to 289", "use the tokenizer of this model"),
        (["a", "-n", "0"], "-n is 0", "give -n a whole number from 1 to 2147483647"),
        (["a", "--threads", "two"], "--threads is two", "give --threads a whole number from 1 to 4096"),
        (["a", "--chunk", "513"], "--chunk is 513", "give --chunk a whole number from 1 to 512"),
        (
            ["a", "--temperature", "-1"],
            "--temperature is -1",
            "give 0 for the most likely token, or a number above it",
        ),
        (
            ["a", "--temperature", "nan"],
            "--temperature is nan",
            "give 0 for the most likely token, or a number above it",
        ),
        (["a", "--top-p", "0"], "--top-p is 0", "give --top-p above 0 and at most 1"),
        (["a", "--top-p", "1.5"], "--top-p is 1.5", "give --top-p above 0 and at most 1"),
        (["a", "--seed", "-1"], "--seed is -1", "give --seed from 0 to 2**64 - 1"),
        (["a", "--fill", "--weights", "w"], "--fill and --weights are both given", "leave one of them out"),
        (["", "--no-chat"], "the prompt is empty: it has no tokens", "give a prompt with some text"),
        (
            ["a", "--no-chat", "-n", "1025"],
            "the prompt has 1 tokens and 1025 more are asked for, the context is 1024",
            "shorten the prompt, or ask for fewer tokens with -n",
        ),
        (["a" * 2000, "--no-chat"], "the prompt has 2000 tokens, the context is 1024", "shorten the prompt"),
        (
            ["a", "--weights", "absent.bin"],
            "absent.bin: the weights cannot be read: No such file or directory",
            "put the file there, name it with --weights, or make weights up with --fill",
        ),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, list) else "",
)
def test_bad_input_is_refused_by_name(emitted: Emitted, arguments: list[str], message: str, fix: str) -> None:
    ran = emitted.run(*arguments)
    assert (ran.code, ran.out, ran.err) == (2, "", f"error: {message}\n  = fix: {fix}\n")


def test_text_that_is_not_utf8_is_refused(emitted: Emitted) -> None:
    ran = subprocess.run([emitted.folder / "model", b"ab\xff"], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr.decode()) == (
        2,
        "error: the text is not Unicode: byte 2 of it\n  = fix: give the text as UTF-8\n",
    )


def test_help_names_every_option(emitted: Emitted) -> None:
    ran = emitted.run("--help")
    assert ran.code == 0
    for option in "-n --ids --no-chat --temperature --top-p --seed --threads --chunk --weights --fill".split():
        assert f"  {option} " in ran.out


def test_missing_weights_are_named(emitted: Emitted, weights: Callable[[bytes | None], Path]) -> None:
    weights(None)
    path = emitted.folder / "weights.bin"
    ran = emitted.run("a")
    assert ran.code == 2
    assert ran.err.startswith(f"error: {path}: the weights cannot be read: No such file or directory\n")


def test_weights_of_another_size_or_model_are_refused(
    emitted: Emitted, weights: Callable[[bytes | None], Path]
) -> None:
    whole = weights(None).read_bytes()
    path = emitted.folder / "weights.bin"
    cases = (
        (whole[:-64], f"it has {len(whole) - 64} bytes, not {len(whole)}"),
        (whole + bytes(4), f"it has {len(whole) + 4} bytes, not {len(whole)}"),
        (b"x" + whole[1:], "it is no file of baked weights"),
        (whole[:100], "it has 100 bytes, which is no file of weights"),
        (b"", "it has 0 bytes, which is no file of weights"),
    )
    for data, message in cases:
        weights(data)
        ran = emitted.run("a")
        assert (ran.code, ran.err.splitlines()[0]) == (2, f"error: {path}: {message}")
    weights(whole[:32] + bytes(32) + whole[64:])
    ran = emitted.run("a")
    assert ran.code == 2
    assert f"the weights are laid out by manifest {'0' * 64}, this program reads " in ran.err


def test_a_damaged_vocabulary_is_refused(emitted: Emitted) -> None:
    path = emitted.folder / "tokenizer.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-8])
    try:
        ran = emitted.run("a")
    finally:
        path.write_bytes(whole)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error: {path}: it ends too early")


def test_made_up_weights_are_the_same_on_any_threads(home: Home, emitted: Emitted) -> None:
    """In a folder with weights, and in one that came from a config.json alone."""
    (home.folder / "bare").mkdir()
    config = json.loads((home.folder / "model" / "config.json").read_text())
    (home.folder / "bare" / "config.json").write_text(json.dumps(config))
    ran = home.met("emit", "bare/config.json", "-o", "sizes", "--no-weights")
    assert ran.code == 0, ran.err
    bare = built(home.folder / "sizes", "CFLAGS=-O1")
    assert not (bare.folder / "weights.bin").exists()
    hashed = ("--ids", "5,6,7,8,9", "--logits-hash")
    found = {bare.run(*hashed, "--threads", n).out for n in "112"}
    assert len(found) == 1
    # The model's tensors are bfloat16 by value and stored so, which a config.json cannot tell: other words are made up.
    stored = {emitted.run(*hashed, "--fill", "--threads", n).out for n in "112"}
    assert len(stored) == 1
    assert len({bare.run("-n", "12", "--threads", n).out for n in "112"}) == 1
    ran = bare.run("--fill", "Hello")
    assert ran.err.startswith(f"error: {bare.folder / 'tokenizer.bin'}: there is no such file, so text cannot become")
    note = "note: the weights are made up, so the tokens mean nothing\n"
    assert bare.run().err.startswith(note)


def test_json_lists_what_was_written(emitted: Emitted) -> None:
    found = json.loads(emitted.said)
    made = {path for path in leftovers(emitted.folder) if not path.endswith(".o")} - {"model", "bench"}
    assert {file["path"]: file["n_bytes"] for file in found["files"]} == {
        path: (emitted.folder / path).stat().st_size for path in made
    }
    assert len(found["bytes_digest"]) == 64


def test_a_folder_that_is_not_empty_needs_force(home: Home) -> None:
    folder = home.folder / "taken"
    folder.mkdir()
    (folder / "own.txt").write_text("mine")
    (folder / "main.c").write_text("old")
    refused(
        home.met("emit", "model", "-o", "taken", "--no-weights"),
        message="the folder is not empty",
        at="taken",
        fix="give -o another one, or --force to replace its files",
    )
    ran = home.met("emit", "model", "-o", "taken", "--no-weights", "--force")
    assert ran.code == 0
    assert re.fullmatch(r"taken: \d+ files, 0\.\d MB; build it with: make -C taken -j\n", ran.out)
    assert (folder / "own.txt").read_text() == "mine"
    assert (folder / "main.c").read_text() != "old"
    assert [path.name for path in home.folder.glob(".taken*")] == []


def test_a_class_is_emitted_for_its_machines_alone_and_gives_the_bytes_of_any(home: Home, emitted: Emitted) -> None:
    ran = home.met("emit", "model", "-o", "wide", "--class", "avx2", "--ids-only", "--no-weights", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["bytes_digest"] == json.loads(emitted.said)["bytes_digest"]
    machines = [line for line in (home.folder / "wide/Makefile").read_text().splitlines() if "-march=" in line]
    assert machines == ["MACHINE_Linux-x86_64 = -march=x86-64-v3"]


def test_a_class_without_kernels_in_c_is_refused(home: Home) -> None:
    ran = home.met("emit", "model", "-o", "gpu", "--class", "hopper")
    refused(ran, message="class hopper has no kernels in C to write", fix="name a class of CPUs with --class")


def test_what_the_command_cannot_do_is_refused(home: Home) -> None:
    (home.folder / "file").write_text("x")
    refused(
        home.met("emit", "model", "-o", "file"),
        message="the output is a file",
        at="file",
        fix="give -o a folder, or one that does not exist yet",
    )
    refused(
        home.met("emit", "model", "-o", "no/such/place"),
        message="the folder above it does not exist",
        at="no/such/place",
        fix="make it: mkdir -p no/such",
    )
    refused(
        home.met("emit", "model/config.json", "-o", "new"),
        message="a config.json alone has no weights",
        at="model/config.json",
        fix="emit with --no-weights: the program makes some up",
    )


def changed_model(home: Home, name: str, change: Callable[[Path], None]) -> Path:
    """A copy of the model with another tokenizer."""
    folder = home.folder / name
    shutil.copytree(home.folder / "model", folder)
    change(folder)
    return folder


def test_a_rule_of_the_tokenizer_that_c_does_not_have_is_named(home: Home) -> None:
    def strip(folder: Path) -> None:
        path = folder / "tokenizer.json"
        found = json.loads(path.read_text())
        found["added_tokens"][0]["lstrip"] = True
        path.write_text(json.dumps(found))

    changed_model(home, "stripping", strip)
    refused(
        home.met("emit", "stripping", "-o", "new"),
        message='the emitted program has no rule for added token "<|endoftext|>" with lstrip',
        at="stripping/tokenizer.json",
        fix="emit with --ids-only, and give the program token ids with --ids",
    )


@pytest.mark.slow
def test_programs_without_rules_or_template_say_so(home: Home) -> None:
    ran = home.met("emit", "model", "-o", "by-ids", "--ids-only")
    assert ran.code == 0, ran.err
    program = built(home.folder / "by-ids", "CFLAGS=-O0")
    ran = program.run("Hello")
    assert (ran.code, ran.err) == (
        2,
        "error: the program was written without rules for text\n  = fix: give token ids with --ids\n",
    )
    expected = home.met("run", "model", "Hello", "-n", "8", "--no-chat")
    ids = home.met("emit", "model", "-o", "plain", "--no-chat", "--no-weights")
    assert ids.code == 0, ids.err
    encoder = built(home.folder / "plain", "CFLAGS=-O0")
    asked = encoder.run("--encode", "--no-chat", "Hello").out.split()
    assert program.run("--ids", ",".join(asked), "-n", "8").out == expected.out
    ran = encoder.run("Hello")
    assert (ran.code, ran.err) == (
        2,
        "error: the program was written without a chat template\n  = fix: give --no-chat or --ids\n",
    )


@pytest.mark.parametrize("template", ["{{ messages[0].content | upper }}", "fixed"])
def test_a_template_that_changes_the_message_is_refused(home: Home, template: str) -> None:
    def change(folder: Path) -> None:
        path = folder / "tokenizer_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"chat_template": template}))

    name = f"template-{len(template)}"
    changed_model(home, name, change)
    refused(
        home.met("emit", name, "-o", "new"),
        message="the chat template does more with a message than to write texts before and after it",
        fix="emit with --no-chat, and give the program whole texts",
    )


def test_a_folder_without_a_tokenizer_is_refused(home: Home) -> None:
    changed_model(home, "wordless", lambda folder: (folder / "tokenizer.json").unlink())
    refused(
        home.met("emit", "wordless", "-o", "new"),
        message="the folder has no tokenizer.json",
        at="wordless",
        fix="download it too, or emit with --ids-only",
    )


@pytest.mark.slow
def test_the_demo_model_says_the_same_words(home: Home) -> None:
    path = demo_file()
    assert home.met("emit", str(path), "-o", "demo").code == 0
    program = built(home.folder / "demo")
    for prompt in ("What is photosynthesis?", "Name 3 colours, please.", "def f(x):\n    return x + 12345"):
        for options in ((), ("--temperature", "0.7", "--seed", "3"), ("--no-chat",)):
            expected = home.met("run", str(path), prompt, "-n", "48", *options)
            ran = program.run(prompt, "-n", "48", *options)
            assert (ran.code, ran.out) == (0, expected.out)
