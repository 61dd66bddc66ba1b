"""The tokenizer of an emitted program by itself: compiled once, it reads texts and prints their ids."""

import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from circuit_exec.library import library_root
from circuit_exec.text.tables import Chat, encoder_rules, tables
from circuit_exec.text.tokenizer import Tokenizer

FILES = ("tokenizer", "words", "pattern", "utf8", "failure")
MAIN = r"""
#include "tokenizer.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  tokenizer *t = tokenizer_open(argv[1]);
  unsigned n;
  while (fread(&n, sizeof n, 1, stdin) == 1) {
    unsigned char *text = malloc(n + 1);
    if (fread(text, 1, n, stdin) != n) return 1;
    ids found = tokenizer_prompt(t, (bytes){text, n}, argc > 2);
    for (size_t i = 0; i < found.n; i++) printf("%d ", found.at[i]);
    putchar('\n');
    free(text);
    free(found.at);
  }
  return 0;
}
"""


def compiled_encoder(folder: Path) -> Path:
    """The program `encode TABLES [chat]`, with checks of addresses and of what C leaves undefined."""
    (folder / "encode.c").write_text(MAIN)
    sources = library_root() / "kernels" / "cpu" / "program"
    flags = "-std=c11 -pedantic -Wall -Wextra -Werror -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    files = [str(sources / f"{name}.c") for name in FILES]
    command = ["cc", *flags.split(), "-o", "encode", "encode.c", f"-I{sources}", *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "encode"


def encoded(program: Path, tokenizer: Tokenizer, chat: Chat | None, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text as a prompt, by the emitted program."""
    path = program.with_name("tokenizer.bin")
    path.write_bytes(tables(tokenizer, encoder_rules(tokenizer), chat))
    data = [text.encode("utf-8") for text in texts]
    done = subprocess.run(
        [program, path, *(["chat"] if chat is not None else [])],
        input=b"".join(struct.pack("<I", len(part)) + part for part in data),
        env={"ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr.decode()
    return [[int(word) for word in line.split()] for line in done.stdout.decode().splitlines()]
