"""What holds for every file: its size, its words, and that what is named exists."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.shared import LONGEST
from tests.structure.tree import FOLDERS, ROOT, files, python_files, top_files

MAX_LINES = 400
VENDOR_WORDS = (
    "hidden_size num_attention_heads num_key_value_heads num_hidden_layers intermediate_size max_position_embeddings "
    "tie_word_embeddings rms_norm_eps torch_dtype hidden_act embed_tokens lm_head q_proj k_proj v_proj o_proj "
    "gate_proj up_proj down_proj input_layernorm post_attention_layernorm token_embd attn_q ffn_gate"
).split()
MODEL_NAMES = "llama mistral qwen qwen2 qwen3 smollm smollm2".split()
PLACES = re.compile(
    "|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/tm" + "p/", "/va" + "r/"))
)  # written in pieces, so that this file does not find itself
HOSTS = re.compile(
    "|".join(("py" + r"pi\.org", "pythonho" + r"sted\.org", "np" + r"mjs\.org", "hugging" + r"face\.co"))
)


def long_files(sources: dict[str, str]) -> list[str]:
    """The files with more than MAX_LINES lines."""
    counts = {path: text.count("\n") for path, text in sources.items()}
    return [f"{path}: {lines} lines" for path, lines in counts.items() if lines > MAX_LINES]


def words_in(sources: dict[str, str], pattern: re.Pattern[str]) -> list[str]:
    """Each place where the pattern occurs: file, line and what was found."""
    return [
        f"{path}:{number}: {match.group()}"
        for path, text in sources.items()
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def whole_words(words: list[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![A-Za-z0-9_])(?:" + "|".join(words) + r")(?![A-Za-z0-9_])", re.IGNORECASE)


def test_no_code_file_has_more_than_400_lines() -> None:
    assert long_files(python_files("bench", "circuit", "circuit_exec", "cli", "tests")) == []


def test_the_files_of_tests_that_go_first_exist() -> None:
    assert [name for name in LONGEST if not (ROOT / "tests" / name).is_file()] == []


def test_a_file_of_401_lines_is_found() -> None:
    assert long_files({"a.py": "x\n" * 400, "b.py": "x\n" * 401}) == ["b.py: 401 lines"]


def test_vendor_words_stay_out_of_circuit() -> None:
    assert words_in(python_files("circuit"), whole_words(VENDOR_WORDS)) == []


def test_a_vendor_word_is_found_only_as_a_whole_word() -> None:
    sources = {"circuit/a.py": 'x = "hidden_size"\ny = my_hidden_size\n# intermediate_size\n'}
    found = ["circuit/a.py:1: hidden_size", "circuit/a.py:3: intermediate_size"]
    assert words_in(sources, whole_words(VENDOR_WORDS)) == found


def code_only(text: str) -> str:
    """The text without comments and docstrings, which may say what a model is called."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [part for part in node.body if not _is_text(part)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(part: ast.stmt) -> bool:
    return isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)


def test_no_decision_in_circuit_depends_on_the_name_of_a_model() -> None:
    code = {path: code_only(text) for path, text in python_files("circuit").items()}
    assert words_in(code, whole_words(MODEL_NAMES)) == []


def test_the_name_of_a_model_is_found_in_code_but_not_in_a_comment() -> None:
    text = '"""Rows as Llama has them."""\ndef f(a):\n    # llama\n    return a == "llama" or a == "llama3"\n'
    assert words_in({"circuit/a.py": code_only(text)}, whole_words(MODEL_NAMES)) == ["circuit/a.py:2: llama"]


def test_no_file_names_a_place_of_one_machine_or_the_host_of_a_registry() -> None:
    sources = files(*FOLDERS) | top_files()
    assert words_in(sources, PLACES) == []
    assert words_in(sources, HOSTS) == []


def test_a_machine_path_is_found() -> None:
    assert words_in({"a.py": "open('/ho" + "me/me/model')"}, PLACES) == ["a.py:1: /ho" + "me/"]


def named_paths(text: str) -> Iterator[str]:
    """What a document names between backticks, or links to, that looks like a path of this project."""
    for name in re.findall(r"`([^`\s]+)`|\]\(([^)\s]+)\)", text):
        path = (name[0] or name[1]).partition("#")[0]
        elsewhere = path.startswith(("http", "-", "/")) or "<" in path  # a link, an option, a path of a server
        if not elsewhere and re.search(r"/|\.(py|toml|md)$|^Makefile$", path):
            yield path


@pytest.mark.parametrize("document", ["README.md", "adr/README.md"])
def test_the_map_names_only_paths_that_exist(document: str) -> None:
    folder = (ROOT / document).parent
    paths = list(named_paths((ROOT / document).read_text(encoding="utf-8")))
    assert paths, f"{document} names no path"
    assert [path for path in paths if not (ROOT / path).exists() and not (folder / path).exists()] == []


def test_a_path_in_a_document_is_found_with_and_without_a_link() -> None:
    text = "see `circuit/uop/`, [this](0001-x.md#why), `met run`, `kernels/<class>/x.toml` and `errors.py`"
    assert list(named_paths(text)) == ["circuit/uop/", "0001-x.md", "errors.py"]


def test_the_map_lists_every_decision_and_their_numbers_have_no_gap() -> None:
    names = sorted(path.name for path in (ROOT / "adr").glob("[0-9]*.md"))
    text = (ROOT / "adr/README.md").read_text(encoding="utf-8")
    assert [name for name in names if f"({name})" not in text] == []
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / "adr").glob("[0-9]*.md"))])
def test_a_decision_has_all_its_parts(name: str) -> None:
    text = (ROOT / "adr" / name).read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings == ["Context", "Decision", "Rejected", "Consequences"]
    assert re.search(r"^Status: (accepted|superseded by \[.*\]\(.*\))\. Date: \d{4}-\d\d-\d\d\.$", text, re.MULTILINE)
    assert text.count("\n") <= 60, "a decision fits a page"
