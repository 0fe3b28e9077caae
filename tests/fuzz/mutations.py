"""Mutations of bytes, text and JSON documents, each drawn by a generator of random numbers."""

import gzip
import json
import zlib

EXTREME = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
WORDS = (
    b"", b"nan", b"-1", b"0", b"1e308", b"1_000", b"\xef\xbc\x91\xef\xbc\x92", b"\x00", b"\xff\xfe",
    b"9" * 40, b"]]>", b"&lt;", b"../../x", b"\t", b"\n\n", b'"', b"[" * 2000, b"a." * 2000, b"x" * 140_000,
    b"<a>" * 300,
)  # fmt: skip
VALUES = (
    None,
    True,
    -1,
    0,
    1,
    10**30,
    1.5,
    -1e300,
    "",
    "x" * 1000,
    [],
    [[]],
    [0],
    {},
    {"a": 1},
    "../../etc/passwd",
)


def mutated(content, rng, *, text=False):
    """The bytes of a file with one to four mutations."""
    content = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        size = len(content)
        at = int(rng.integers(0, size + 1))
        if not text and rng.random() < 0.4:
            at = int(rng.integers(0, min(size, 400) + 1))  # headers are where it hurts
        end = min(size, at + int(rng.integers(1, 40)))
        match int(rng.integers(0, 7)):
            case 0:
                for position in range(at, min(at + 1, size)):
                    content[position] ^= 1 << int(rng.integers(0, 8))
            case 1:
                del content[at:end]
            case 2:
                content[at:at] = content[at:end] * int(rng.integers(1, 4))
            case 3:
                del content[at:]
            case 4:
                content[at:end] = rng.bytes(end - at)
            case 5:
                width, order = int(rng.choice([1, 2, 4])), str(rng.choice(["little", "big"]))
                number = int(rng.choice(EXTREME)) % 256**width
                content[at : at + width] = number.to_bytes(width, order)
            case 6:
                content[at:end] = WORDS[int(rng.integers(0, len(WORDS)))]
    return bytes(content)


def mutated_gzip(content, rng):
    """A gzip file, mutated outside or inside."""
    if rng.random() < 0.3:
        return mutated(content, rng)
    inside = mutated(gzip.decompress(content), rng)
    whole = gzip.compress(inside, mtime=0)
    return (
        whole
        if rng.random() < 0.8
        else whole[:-8] + zlib.crc32(inside[::-1]).to_bytes(4, "little") + whole[-4:]
    )


def mutated_json(text, rng):
    """A JSON document in which one or two values are others, are gone, or have changed places."""
    document = json.loads(text)
    for _ in range(int(rng.integers(1, 3))):
        places = list(_places(document))
        holder, key = places[int(rng.integers(0, len(places)))]
        other, other_key = places[int(rng.integers(0, len(places)))]
        match int(rng.integers(0, 4)):
            case 0:
                del holder[key]
            case 1:
                holder[key] = json.loads(json.dumps(other[other_key]))
            case _:
                holder[key] = VALUES[int(rng.integers(0, len(VALUES)))]
    return document


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)
