"""API keys: a file with the SHA-256 of each, compared in constant time; and which requests need one."""

import hashlib
import hmac
import ipaddress
import re
from collections.abc import Sequence

from msgspec import Struct

from circuit.errors import LoadError, PolicyError, Problem
from circuit.text import Source, problem_at

HASH = re.compile(r"[0-9a-f]{64}")
HOW = "write the SHA-256 of the key: printf %s KEY | sha256sum | cut -d' ' -f1"


class Keys(Struct, frozen=True, kw_only=True):
    """The hashes of the keys that are taken."""

    hashes: tuple[bytes, ...]

    def take(self, authorization: str) -> bool:
        """Whether a header `Authorization` holds one of the keys. Every hash is compared, whichever it is."""
        scheme, _, key = authorization.partition(" ")
        digest = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        found = [hmac.compare_digest(digest, known) for known in self.hashes]
        return scheme.lower() == "bearer" and any(found)


def parse_keys(source: Source) -> Keys:
    """A hash a line, then a name if there is one; empty lines and those that begin with # are left out."""
    hashes, problems = [], []
    for number, line in enumerate(source.text.split("\n"), 1):
        word = line.partition("#")[0].split()
        if not word:
            continue
        if HASH.fullmatch(word[0]) and len(word) <= 2:
            hashes.append(bytes.fromhex(word[0]))
        else:
            problems.append(problem_at(source, number, "the line is not a SHA-256 in hex and a name", HOW))
    if problems:
        hidden = [Problem(message=p.message, fix=p.fix, file=p.file, line=p.line) for p in problems]
        raise LoadError(hidden)
    if not hashes:
        raise LoadError(problem_at(source, None, "the file holds no key, so every request would be refused", HOW))
    return Keys(hashes=tuple(hashes))


def check_bind(host: str, keys: Keys | None, allow_public: bool) -> None:
    """Refuses an address that others can reach when no key is asked for, unless that is said."""
    if is_loopback(host) or keys is not None or allow_public:
        return
    raise PolicyError(
        Problem(
            message=f"{host} can be reached by others, and no API key is asked for",
            fix="give --api-key-file FILE, or say --allow-public-without-keys",
        )
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_allowed(header: str, extra: Sequence[str]) -> bool:
    """Whether a header `Host` names this machine: a page that had its name resolved to 127.0.0.1 does not."""
    name = header.rpartition(":")[0] if re.search(r":\d+$", header) else header
    return is_loopback(name) or name in extra
