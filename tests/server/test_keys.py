"""API keys are stated as hashes; a public bind without any is refused."""

import hashlib

import pytest

from circuit.errors import LoadError, PolicyError
from circuit.text import Source
from circuit_exec.server.keys import Keys, check_bind, host_allowed, parse_keys

HASH = hashlib.sha256(b"secret").hexdigest()


def keys(text: str) -> Keys:
    return parse_keys(Source(path="keys.txt", text=text))


def test_a_key_is_taken_by_its_hash_and_no_other() -> None:
    known = keys(f"# ours\n\n{HASH}  laptop\n{'0' * 64}\n")
    assert known.take("Bearer secret")
    assert known.take("bearer secret ")
    for wrong in ("", "secret", "Basic secret", "Bearer Secret", "Bearer", f"Bearer {HASH}"):
        assert not known.take(wrong), wrong


@pytest.mark.parametrize("line", ["secret", HASH.upper(), HASH[:-1], f"{HASH} two names"])
def test_a_line_that_is_no_hash_is_refused_without_showing_it(line: str) -> None:
    with pytest.raises(LoadError) as caught:
        keys(f"{HASH}\n{line}\n")
    said = str(caught.value)
    assert "the line is not a SHA-256 in hex and a name" in said
    assert "keys.txt:2" in said
    assert "write the SHA-256 of the key: printf %s KEY | sha256sum | cut -d' ' -f1" in said
    assert line not in said


def test_a_file_without_a_key_is_refused() -> None:
    with pytest.raises(LoadError, match="the file holds no key, so every request would be refused"):
        keys("# none\n")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.2", "example.org"])
def test_a_public_address_without_keys_is_refused_unless_that_is_said(host: str) -> None:
    with pytest.raises(PolicyError) as caught:
        check_bind(host, None, False)
    said = str(caught.value)
    assert f"{host} can be reached by others, and no API key is asked for" in said
    assert "give --api-key-file FILE, or say --allow-public-without-keys" in said
    check_bind(host, None, True)
    check_bind(host, keys(HASH), False)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_a_loopback_address_needs_no_key(host: str) -> None:
    check_bind(host, None, False)


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("127.0.0.1:8000", True),
        ("localhost", True),
        ("[::1]:8000", True),
        ("box.lan:8000", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:80", False),
        ("", False),
    ],
)
def test_a_host_header_must_name_this_machine(header: str, allowed: bool) -> None:
    assert host_allowed(header, ["box.lan"]) == allowed
