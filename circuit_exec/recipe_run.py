"""What a recipe records and how it is verified: the hashes of a checkpoint's files, and the output of prompts."""

import hashlib
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

from msgspec import Struct

from circuit.errors import Problem
from circuit.load.recipe import Output, Recipe, choices, problem_of
from circuit_exec.cache import Cache
from circuit_exec.checkpoint.content_hash import file_hash
from circuit_exec.checkpoint.open import text
from circuit_exec.checkpoint.records import Checkpoint
from circuit_exec.generate import Sampling, generate
from circuit_exec.library import library
from circuit_exec.logits import all_logits, logits_hash
from circuit_exec.model import TOKENIZER_TEXTS, Model, fingerprint, plan_set
from circuit_exec.text.chat import Message, render_chat, require_template
from circuit_exec.text.load import all_stop_ids, load_tokenizer
from circuit_exec.text.stream import continue_text, start_text
from circuit_exec.text.tokenizer import Tokenizer, encode, encode_prompt


class Asked(Struct, frozen=True, kw_only=True):
    """A prompt and how its answer is drawn."""

    prompt: str
    chat: bool
    date: str | None
    temperature: float
    top_p: float
    seed: int
    n: int


class Check(Struct, frozen=True, kw_only=True):
    """One comparison. `differs` says how what was found differs from what is recorded, "" where it does not;
    `compared` is False where nothing is recorded to compare with.
    """

    what: str
    found: str
    differs: str = ""
    compared: bool = True


def file_hashes(checkpoint: Checkpoint, cache: Cache) -> tuple[tuple[str, str], ...]:
    """(name, SHA-256) of every file of the checkpoint that is read, sorted by name."""
    weights = checkpoint.files.items()
    found = {Path(path).name: file_hash(Path(path), file, cache, lambda n: None) for path, file in weights}
    texts = list(checkpoint.texts)
    if checkpoint.kind == "safetensors":
        texts += [source for name in TOKENIZER_TEXTS if (source := text(checkpoint, name)) is not None]
    for source in texts:
        found[Path(source.path).name] = hashlib.sha256(Path(source.path).read_bytes()).hexdigest()
    return tuple(sorted(found.items()))


def other_files(recipe: Recipe, found: tuple[tuple[str, str], ...], where: str) -> Iterator[Problem]:
    """Each file of the recipe's checkpoint that is another one, is missing, or is too many."""
    recorded, here = dict(recipe.checkpoint.files), dict(found)
    anew = "give the checkpoint that the recipe is for, or write the recipe anew"
    for name, digest in recorded.items():
        at = ("checkpoint", "files", name)
        if name not in here:
            message = f"the checkpoint has no file {name} ({where})"
            yield problem_of(recipe, at, message, anew)
        elif here[name] != digest:
            message = f"{name} has the hash {here[name]}, not the recorded one ({where})"
            yield problem_of(recipe, at, message, anew)
    for name in here:
        if name not in recorded:
            message = f"the checkpoint has a file {name} that the recipe does not name ({where})"
            yield problem_of(recipe, ("checkpoint", "files"), message, "remove it, or write the recipe anew")


def output_of(model: Model, asked: Asked) -> Output:
    """What the model makes of a prompt, with the hashes that another run is compared by."""
    tokenizer = load_tokenizer(model.checkpoint)
    prompt_ids = _prompt_ids(tokenizer, asked)
    stream = start_text(tokenizer) if asked.chat else continue_text(tokenizer)
    parts: list[str] = []
    chunk = model.program.max_rows("prefill")
    answer = generate(
        model.program,
        model.pages,
        prompt_ids,
        asked.n,
        Sampling(temperature=asked.temperature, top_p=asked.top_p, seed=asked.seed),
        chunk,
        all_stop_ids(model.checkpoint, tokenizer),
        lambda token: parts.append(stream.feed(token)),
    )
    written = "".join((*parts, stream.finish()))
    computed = _computed(tuple(prompt_ids), answer.ids, answer.ended)
    logits = all_logits(model.program, model.pages, computed, chunk)
    return Output(
        prompt=asked.prompt,
        chat=asked.chat,
        date=asked.date,
        temperature=asked.temperature,
        top_p=asked.top_p,
        seed=asked.seed,
        n=asked.n,
        prompt_ids=tuple(prompt_ids),
        ids=answer.ids,
        ended=answer.ended,
        text=hashlib.sha256(written.encode("utf-8")).hexdigest(),
        logits=logits_hash(logits),
    )


def plan_digests(checkpoint: Checkpoint, policy: tuple[str, ...], hardware_class: str) -> tuple[tuple[str, str], ...]:
    """(mode and rows, digest) of each plan of a class. Nothing runs, so any class that C is rendered for will do."""
    from circuit.compiled import Goal
    from circuit.pipeline import compiled
    from circuit_exec.checkpoint.texts import checkpoint_texts

    plans = compiled(checkpoint_texts(checkpoint), library(), Goal(hardware_class=hardware_class, choices=policy)).plans
    return tuple((f"{plan.mode}:{plan.rows[0]}-{plan.rows[1]}", plan.digest) for plan in plans)


def verified(
    recipe: Recipe, checkpoint: Checkpoint, cache: Cache, hardware_class: str, load: Callable[[], Model]
) -> Iterator[Check]:
    """All that the recipe records against what is here, in order; whoever wants the first difference stops there.

    Recorded plans are planned again, whatever their class; prompts run on `hardware_class`. `load` gives that model.
    """
    files = file_hashes(checkpoint, cache)
    for problem in other_files(recipe, files, checkpoint.path):
        yield Check(what="checkpoint", found="", differs=problem.message)
    for name, digest in files:
        yield Check(what=f"file {name}", found=digest)
    expect = recipe.expect
    assert expect is not None, "whoever verifies a recipe has seen that it records something"
    policy = choices(recipe)
    planned = plan_set(checkpoint, cache, "all", policy, hardware_class)
    yield _same("bytes", expect.bytes, planned.bytes_digest)
    recorded = {(name, plan): digest for name, plan, digest in expect.plans}
    for name in dict.fromkeys((*(name for name, _ in recorded), hardware_class)):
        own = planned.digests if name == hardware_class else plan_digests(checkpoint, policy, name)
        for plan, digest in own:
            what = f"plan {plan} of class {name}"
            if any(name == other for other, _ in recorded):
                yield _same(what, recorded.get((name, plan), "no such plan"), digest)
            else:
                yield Check(what=what, found=digest, compared=False)
    if expect.fingerprint is None and not expect.outputs:
        return
    model = load()
    try:
        if expect.fingerprint is not None:
            yield _same("fingerprint", expect.fingerprint, fingerprint(model))
        for number, wanted in enumerate(expect.outputs, 1):
            yield _compared(f"output {number}", wanted, output_of(model, _asked(wanted)))
    finally:
        model.close()


def _computed(prompt_ids: tuple[int, ...], ids: tuple[int, ...], ended: str) -> tuple[int, ...]:
    """The tokens that went through the model: the last one of an answer that was cut did not."""
    return (*prompt_ids, *(ids[:-1] if ended == "length" else ids))


def _asked(output: Output) -> Asked:
    return Asked(
        prompt=output.prompt,
        chat=output.chat,
        date=output.date,
        temperature=output.temperature,
        top_p=output.top_p,
        seed=output.seed,
        n=output.n,
    )


def _same(what: str, recorded: str, found: str) -> Check:
    differs = "" if recorded == found else f"recorded is {recorded}, here is {found}"
    return Check(what=what, found=found, differs=differs)


def _compared(what: str, wanted: Output, found: Output) -> Check:
    """The first respect in which two outputs of one prompt differ, in the order in which one follows from another."""
    positions = len(_computed(found.prompt_ids, found.ids, found.ended))
    said = f"{len(found.ids)} tokens, logits of {positions} positions {found.logits}"
    for name, recorded, here in (
        ("prompt token", wanted.prompt_ids, found.prompt_ids),
        ("token", wanted.ids, found.ids),
    ):
        if recorded != here:
            place = next((at for at, pair in enumerate(zip(recorded, here, strict=False)) if pair[0] != pair[1]), None)
            at = min(len(recorded), len(here)) if place is None else place
            one, other = (str(ids[at]) if at < len(ids) else "none" for ids in (recorded, here))
            return Check(what=what, found=said, differs=f"{name} {at}: recorded is {one}, here is {other}")
    for name, recorded_text, here_text in (
        ("end", wanted.ended, found.ended),
        ("text", wanted.text, found.text),
        ("logits", wanted.logits, found.logits),
    ):
        if recorded_text != here_text:
            return Check(what=what, found=said, differs=f"{name}: recorded is {recorded_text}, here is {here_text}")
    return Check(what=what, found=said)


def _prompt_ids(tokenizer: Tokenizer, asked: Asked) -> list[int]:
    if not asked.chat:
        return encode_prompt(tokenizer, asked.prompt)
    template = require_template(tokenizer.template, tokenizer.file)
    today = None if asked.date is None else date.fromisoformat(asked.date)
    said = [Message(role="user", content=asked.prompt)]
    return encode(tokenizer, render_chat(template, tokenizer.named, said, today))
