"""Damaged, changed and malicious folders give a clear error of one line; nothing in them is executed."""

import contextlib
import hashlib
import io
import json
import os
import pickle
import shutil
import zipfile

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.model import SCHEMA_VERSION, ModelError, file_sha256


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 12)) + 3 * rng.standard_normal((20, 1))
    folder = tmp_path_factory.mktemp("models") / "original"
    return SPCATV(2, structure=(3, 4), alpha=0.02, method="joint", init=np.ones((2, 12))).fit(X).save(folder)


@pytest.fixture
def model(original, tmp_path):
    shutil.copytree(original, tmp_path / "model")
    return tmp_path / "model"


def refused(folder, message, load=SPCATV.load):
    with pytest.raises(ModelError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def sealed(document):
    """The document with a matching SHA-256, as an attacker would write it."""
    rest = {name: value for name, value in document.items() if name != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return rest | {"sha256": hashlib.sha256(text.encode()).hexdigest()}


def change(folder, edit):
    """Edit the document in place and update its hashes."""
    path = folder / "model.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    edit(document)
    path_of_arrays = folder / "arrays.npz"
    if isinstance(document["files"], dict) and "arrays.npz" in document["files"]:
        entry = {"bytes": path_of_arrays.stat().st_size, "sha256": file_sha256(path_of_arrays)}
        document["files"]["arrays.npz"] = entry
    path.write_text(json.dumps(sealed(document)), encoding="utf-8")


def set_at(*keys_and_value):
    *keys, last, value = keys_and_value

    def edit(document):
        for key in keys:
            document = document[key]
        document[last] = value

    return edit


def test_the_copy_is_sound_and_can_be_resealed(model):
    change(model, lambda document: None)
    assert SPCATV.load(model).n_features_in_ == 12


def test_missing_places(model, tmp_path):
    refused(tmp_path / "nowhere", "there is no folder")
    refused(model / "model.json", "is not a folder")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "not a model folder: it has no model.json")


@pytest.mark.parametrize("name", ["model.json", "arrays.npz"])
def test_a_missing_file(name, model):
    (model / name).unlink()
    refused(model, f"{name}")


@pytest.mark.parametrize("name", ["model.json", "arrays.npz"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file(name, share, model):
    content = (model / name).read_bytes()
    (model / name).write_bytes(content[: int(share * len(content))])
    refused(model, "damaged|truncated")


def test_any_changed_byte_of_the_arrays(model):
    content = bytearray((model / "arrays.npz").read_bytes())
    for place in np.random.default_rng(0).integers(len(content), size=20):
        changed = content.copy()
        changed[place] ^= 1
        (model / "arrays.npz").write_bytes(changed)
        refused(model, "arrays.npz was changed after it was written")


def test_a_changed_document(model):
    text = (model / "model.json").read_text(encoding="utf-8")
    (model / "model.json").write_text(text.replace('"alpha": 0.02', '"alpha": 0.03'), encoding="utf-8")
    refused(model, r"model\.json was changed after it was written")


def test_spaces_and_order_do_not_matter(model):
    document = json.loads((model / "model.json").read_text(encoding="utf-8"))
    turned = dict(reversed(document.items()))
    (model / "model.json").write_text(json.dumps(turned, indent=7), encoding="utf-8")
    SPCATV.load(model)


def test_a_name_that_appears_twice(model):
    """JSON readers do not agree on which of the two values to use."""
    text = (model / "model.json").read_text(encoding="utf-8")
    (model / "model.json").write_text(
        text.replace('"alpha": 0.02', '"alpha": 9, "alpha": 0.02'), encoding="utf-8"
    )
    refused(model, "the same name appears twice")


def test_a_newer_schema(model):
    change(model, set_at("schema_version", SCHEMA_VERSION + 1))
    refused(model, rf"newer spca-tv \(schema version {SCHEMA_VERSION + 1}; .*: upgrade")


def test_a_newer_schema_is_named_even_if_nothing_else_is_known(model):
    newer = {"format": "spca-tv model", "schema_version": 99, "chunks": {}}
    (model / "model.json").write_text(json.dumps(newer), encoding="utf-8")
    refused(model, "newer spca-tv")


@pytest.mark.parametrize("version", [None, 0, -1, 1.0, True, "1", [1]])
def test_an_odd_schema_version(version, model):
    change(model, set_at("schema_version", version))
    refused(model, "schema version|damaged")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[1, 2]",
        '"text"',
        '{"format": "other"}',
        '{"format": "spca-tv model", "format": "spca-tv model"}',
        '{"format": "spca-tv model", "schema_version": NaN}',
        '{"format": "spca-tv model", "schema_version": ' + "9" * 5000 + "}",
        "[" * 100_000,
        '{"a": ' * 100_000,
        "\ud800".encode("utf-8", "surrogatepass"),
        b"\xff\xfe\x00",
    ],
)
def test_a_document_that_does_not_describe_a_model(text, model):
    (model / "model.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(model, "damaged|does not describe a model|not a description of a model|schema version")


def nest(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "edit",
    [
        *(set_at(part, odd) for part in ("parameters", "fitted", "files") for odd in (None, [], "x", 3)),
        set_at("kind", 5),
        set_at("kind", "SPCATV\nSPCATV"),
        set_at("parameters", "alpha", 1e999),
        set_at("parameters", "alpha", "0.2"),
        set_at("parameters", "alpha", [0.2]),
        set_at("parameters", "alpha", [0.2, "0.2"]),
        set_at("parameters", "alpha", [0.2, 0.0]),
        set_at("parameters", "alpha", [0.2, [0.2]]),
        set_at("parameters", "unknown", 1),
        set_at("parameters", "structure", {"type": "call", "name": "os.system"}),
        set_at("parameters", "structure", nest(500)),
        set_at("parameters", "n_components", {"type": "tuple"}),
        set_at("parameters", "init", {"type": "array", "array": "../init"}),
        set_at("fitted", "structure", {"kind": "matrix"}),
        set_at("fitted", "diagnostics", None),
        set_at("fitted", "diagnostics", [{}, {}]),
        set_at("fitted", "diagnostics", 0, "gap", "small"),
        set_at("fitted", "diagnostics", 0, "gap", True),
        set_at("fitted", "diagnostics", 0, "converged", 1),
        set_at("fitted", "diagnostics", 0, "n_nonzero", 1.5),
        set_at("fitted", "diagnostics", 0, "objectives", [1.0, None]),
        set_at("fitted", "diagnostics", 0, "more", 1),
        set_at("fitted", "n_features_in", 13),
        set_at("fitted", "n_features_in", 12.0),
        set_at("fitted", "n_iter", "many"),
        set_at("fitted", "l1", None),
        set_at("fitted", "l1", [0.1]),
        set_at("fitted", "l1", [0.1, "0.1"]),
        set_at("fitted", "l1", [0.1, True]),
        set_at("fitted", "l1", 10**400),
        set_at("fitted", "feature_names_in", ["a"]),
        set_at("fitted", "feature_names_in", list(range(12))),
        lambda document: document["fitted"]["diagnostics"].pop(),
        lambda document: document["fitted"].pop("structure"),
        set_at("files", "map.txt", {"bytes": "all"}),
        set_at("files", "map.txt", None),
        lambda document: document["files"].pop("arrays.npz"),
    ],
)
def test_a_document_with_odd_entries(edit, model):
    """All hashes match, so only the checks of the entries can refuse these."""
    change(model, edit)
    refused(model, ".")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "Infinity"])
def test_a_number_that_is_not_finite(number, model):
    text = (model / "model.json").read_text(encoding="utf-8")
    (model / "model.json").write_text(text.replace('"alpha": 0.02', f'"alpha": {number}'), encoding="utf-8")
    refused(model, "is not a finite number")


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc/passwd",
        "maps/../../secret",
        "..",
        "a\\..\\b",
        "C:secret",
        "./x",
        "",
        "a//b",
        "a\0b",
    ],
)
def test_a_name_that_leads_out_of_the_folder(name, model):
    (model.parent / "secret").write_text("secret", encoding="utf-8")
    change(model, set_at("files", name, {"bytes": 6, "sha256": file_sha256(model.parent / "secret")}))
    refused(model, "missing or not a plain file")


def test_a_link_that_leads_out_of_the_folder(model):
    (model.parent / "elsewhere").mkdir()
    (model.parent / "elsewhere/map.txt").write_text("map", encoding="utf-8")
    entry = {"bytes": 3, "sha256": file_sha256(model.parent / "elsewhere/map.txt")}
    (model / "map.txt").symlink_to(model.parent / "elsewhere/map.txt")
    change(model, set_at("files", "map.txt", entry))
    refused(model, "not a plain file")
    (model / "maps").symlink_to(model.parent / "elsewhere", target_is_directory=True)
    change(model, lambda document: document["files"].pop("map.txt"))
    SPCATV.load(model)
    change(model, set_at("files", "maps/map.txt", entry))
    refused(model, "not a plain file")


class Exploit:
    """Runs a command when it is unpickled."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return os.mkdir, (str(self.marker),)


def npy(array, **options):
    content = io.BytesIO()
    np.lib.format.write_array(content, array, **options)
    return content.getvalue()


def pack_arrays(folder, contents, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(folder / "arrays.npz", "w", compression) as archive:
        for name, content in contents.items():
            archive.writestr(f"{name}.npy", content)


def contents_of(folder):
    with zipfile.ZipFile(folder / "arrays.npz") as archive:
        return {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}


def test_a_pickle_among_the_arrays_is_not_executed(model):
    marker = model.parent / "executed"
    objects = np.empty(12, dtype=object)
    objects[:] = [Exploit(marker)] * 12
    attack = npy(objects, allow_pickle=True)
    np.load(io.BytesIO(attack), allow_pickle=True)
    assert marker.is_dir(), "the attack works where pickle is allowed"
    marker.rmdir()
    pack_arrays(model, contents_of(model) | {"mean": attack})
    change(model, lambda document: None)
    refused(model, "pickle")
    assert not marker.exists()


def test_a_pickle_in_place_of_the_arrays(model):
    marker, contents = model.parent / "executed", contents_of(model)
    (model / "arrays.npz").write_bytes(pickle.dumps(Exploit(marker)))
    change(model, lambda document: None)
    refused(model, "damaged, or not a file of arrays")
    pack_arrays(model, contents | {"mean": pickle.dumps(Exploit(marker))})
    change(model, lambda document: None)
    refused(model, "only plain numbers are kept")
    assert not marker.exists()


def huge_header(shape):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return content.getvalue()


@pytest.mark.parametrize("shape", [(2**40,), (2**31, 2**31), (10**12, 12), (2**62, 4)])
def test_a_huge_shape_is_refused(shape, model):
    pack_arrays(model, contents_of(model) | {"mean": huge_header(shape)})
    change(model, lambda document: None)
    refused(model, "damaged, or not a file of arrays")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["components", "mean", "explained_variance", "parameters.init"])
def test_values_that_are_not_finite(name, value, model):
    contents = contents_of(model)
    array = np.load(io.BytesIO(contents[name]))
    array.flat[-1] = value
    pack_arrays(model, contents | {name: npy(array)})
    change(model, lambda document: None)
    refused(model, f"'{name}' of .* holds 1 values that are NaN or infinite")


@pytest.mark.parametrize(
    "other", [np.zeros(13), np.zeros((12, 1)), np.zeros(12, "S8"), np.zeros(12, "<i8"), np.zeros(12, "<c16")]
)
def test_an_array_of_another_shape_or_type(other, model):
    pack_arrays(model, contents_of(model) | {"mean": npy(other)})
    change(model, lambda document: None)
    refused(model, "'mean'")


def test_a_missing_array(model):
    contents = contents_of(model)
    del contents["mean"]
    pack_arrays(model, contents)
    change(model, lambda document: None)
    refused(model, "'mean'")


def test_a_name_of_an_array_that_is_no_file_name(model):
    pack_arrays(model, contents_of(model) | {"../../etc/more": npy(np.zeros(3))})
    change(model, lambda document: None)
    refused(model, "cannot name an array")


def test_an_array_format_that_is_unknown(model):
    content = bytearray(contents_of(model)["mean"])
    content[6:8] = bytes((9, 9))
    pack_arrays(model, contents_of(model) | {"mean": bytes(content)})
    change(model, lambda document: None)
    refused(model, "damaged, or not a file of arrays")


@pytest.mark.parametrize(
    "header", [b"{" * 300, b"(" * 300 + b"\n", b"{'descr': __import__('os').mkdir('x')}", b"'"]
)
def test_an_invalid_header(header, model):
    content = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    pack_arrays(model, contents_of(model) | {"mean": content})
    change(model, lambda document: None)
    refused(model, "damaged, or not a file of arrays")


def test_random_damage_with_matching_hashes_is_refused_or_harmless(model):
    """Damage is refused, or gives a model of the same shape."""
    content = (model / "arrays.npz").read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(150):
        changed = bytearray(content)
        changed[rng.integers(len(content))] = rng.integers(256)
        (model / "arrays.npz").write_bytes(changed)
        change(model, lambda document: None)
        with contextlib.suppress(ModelError):
            assert SPCATV.load(model).components_.shape == (2, 12)
