"""Mutations of bytes, text and JSON documents, each drawn by a generator of random numbers."""

import gzip
import json
import zlib

EXTREME = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
GZIP_HEADER = gzip.compress(b"", mtime=0)[:10]
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


def mutated_stream(content, rng):
    """A gzip file compressed anew in one of many ways, and then damaged.

    Blocks that are swapped, repeated or missing can be decoded: only the checksum behind them tells.
    """
    inside = gzip.decompress(content)
    level, strategy = int(rng.choice([0, 1, 6, 9])), int(rng.choice([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED]))
    encoder = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS, strategy=strategy)
    ends = sorted({*rng.integers(1, len(inside), 4).tolist(), len(inside)})
    blocks = [
        encoder.compress(inside[begin:end]) + encoder.flush(zlib.Z_FULL_FLUSH)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    last, trailer = encoder.flush(), _trailer(inside)
    one, other = rng.choice(len(blocks), 2, replace=False) if len(blocks) > 1 else (0, 0)
    match int(rng.integers(0, 9)):
        case 0:
            blocks[one], blocks[other] = blocks[other], blocks[one]
        case 1:
            blocks.insert(int(other), blocks[one])
        case 2:
            del blocks[one]
        case 3:
            trailer = _trailer(inside[::-1])
        case 4:
            trailer = trailer[:4] + int(len(inside) ^ 1 << int(rng.integers(0, 32))).to_bytes(4, "little")
        case 5:
            trailer = trailer[: -int(rng.integers(1, 8))]
        case 6:
            trailer, last = b"", last[: len(last) - int(rng.integers(0, 2))]
        case 7:
            trailer += rng.bytes(int(rng.integers(1, 30))) + b"x"
        case _:
            return _flipped(GZIP_HEADER + b"".join([*blocks, last, trailer]), rng)
    return GZIP_HEADER + b"".join([*blocks, last, trailer])


def _trailer(inside):
    return zlib.crc32(inside).to_bytes(4, "little") + len(inside).to_bytes(4, "little")


def _flipped(content, rng):
    """One to four bits behind the header are others."""
    content = bytearray(content)
    for place in rng.choice(8 * (len(content) - 10), int(rng.integers(1, 5)), replace=False).tolist():
        content[10 + place // 8] ^= 1 << place % 8
    return bytes(content)


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
