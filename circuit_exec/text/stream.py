"""Text that appears while tokens come: only whole characters leave, and all pieces together are the decoded text."""

import codecs

from circuit_exec.text.tokenizer import Tokenizer, piece_of


class StreamDecoder:
    """Turns ids into text one at a time. Bytes of a character that is not complete yet wait for the next id."""

    def __init__(self, tokenizer: Tokenizer, drops_space: bool) -> None:
        self._tokenizer = tokenizer
        self._drops_space = drops_space
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, id: int) -> str:
        """The text that `id` completes; often empty."""
        return self._cut(self._decoder.decode(piece_of(self._tokenizer, id)))

    def finish(self) -> str:
        """What is left: U+FFFD where the last character never got its bytes."""
        return self._cut(self._decoder.decode(b"", final=True))

    def _cut(self, text: str) -> str:
        if not text or not self._drops_space:
            return text
        self._drops_space = False
        return text.removeprefix(" ")


def start_text(tokenizer: Tokenizer) -> StreamDecoder:
    """For a text of its own, such as an answer: equals `decode` of all its ids."""
    return StreamDecoder(tokenizer, tokenizer.strips_space)


def continue_text(tokenizer: Tokenizer) -> StreamDecoder:
    """For what follows a prompt: a space between the last word and the next one is kept."""
    return StreamDecoder(tokenizer, False)
