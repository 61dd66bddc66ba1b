"""The byte alphabet of GPT-2: every byte as one printable character, so that a BPE vocabulary is made of texts.

Source: bytes_to_unicode in encoder.py of the GPT-2 release (Radford et al. 2019).
"""


def _alphabet() -> tuple[str, ...]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    shown = {byte: byte for byte in printable} | {byte: 256 + n for n, byte in enumerate(others)}
    return tuple(chr(shown[byte]) for byte in range(256))


CHARACTER_OF = _alphabet()
"""The character of each byte."""

_BYTE_OF = {character: byte for byte, character in enumerate(CHARACTER_OF)}


def bytes_of(token: str) -> bytes:
    """The bytes that a token of a byte-level vocabulary stands for; a token outside the alphabet is its own UTF-8."""
    try:
        return bytes([_BYTE_OF[character] for character in token])
    except KeyError:
        return token.encode("utf-8")
