"""A bundle is verified without a database, and every change of its bytes is found."""

import json
import zipfile

import pytest

from grants.evidence import bundle
from grants.evidence.bundle import BundleError, verify_bundle, write_bundle
from grants.evidence.signing import known_public_keys, public_key

FILES = {"access.csv": b"user,operation\nuser:ada,read\n" * 50, "report.html": b"<p>Ada</p>"}


@pytest.fixture
def path(tmp_path):
    sources = {}
    for name, data in FILES.items():
        sources[name] = tmp_path / f"source-{name}"
        sources[name].write_bytes(data)
    write_bundle(tmp_path / "evidence.zip", {"entity": "dataset:sales.orders"}, sources)
    return tmp_path / "evidence.zip"


def rewrite(path, change):
    """Write the bundle again after `change` has changed the dictionary of its files."""
    with zipfile.ZipFile(path) as archive:
        files, comment = {name: archive.read(name) for name in archive.namelist()}, archive.comment
    change(files)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_bundle_is_valid_as_it_was_written(path):
    manifest = verify_bundle(path, known_public_keys())
    assert manifest["entity"] == "dataset:sales.orders" and manifest["public_key"] == public_key()
    assert [file["name"] for file in manifest["files"]] == sorted(FILES)
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_changed_byte_is_found(path):
    data = path.read_bytes()
    for position in range(len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(BundleError):
            verify_bundle(path, known_public_keys())


@pytest.mark.parametrize("length", [0, 10, 200, -1])
def test_a_truncated_bundle_is_found(path, length):
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BundleError):
        verify_bundle(path, set())


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_changed_file_is_named(path, name):
    rewrite(path, lambda files: files.update({name: files[name].replace(b"A", b"B").replace(b"a", b"b")}))
    with pytest.raises(BundleError, match=f"^{name} was changed"):
        verify_bundle(path, set())


def test_an_added_and_a_removed_file_are_named(path):
    rewrite(path, lambda files: files.update({"more.csv": b""}))
    with pytest.raises(BundleError, match=r"^more\.csv was added"):
        verify_bundle(path, set())
    rewrite(path, lambda files: [files.pop("more.csv"), files.pop("access.csv")])
    with pytest.raises(BundleError, match=r"^access\.csv is missing"):
        verify_bundle(path, set())


def test_a_bundle_that_was_changed_and_signed_with_another_key_is_refused(path, settings):
    trusted = known_public_keys()
    settings.JOURNAL_KEYS = ["another key of at least 32 characters"]
    sources = {name: path.parent / f"source-{name}" for name in FILES}
    write_bundle(path, {"entity": "dataset:sales.orders"}, sources)
    assert verify_bundle(path, set())
    with pytest.raises(BundleError, match="unknown key"):
        verify_bundle(path, trusted)


def test_the_manifest_can_name_another_key_only_with_its_signature(path, settings):
    other = json.dumps(public_key())
    settings.JOURNAL_KEYS = ["another key of at least 32 characters"]

    def replace_key(files):
        files[bundle.MANIFEST] = files[bundle.MANIFEST].replace(
            other.encode(), json.dumps(public_key()).encode()
        )

    rewrite(path, replace_key)
    with pytest.raises(BundleError, match="does not match"):
        verify_bundle(path, set())


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{", b'{"format": 2}', b'{"format": 1, "files": 3, "public_key": ""}']
)
def test_a_manifest_of_another_form_is_refused(path, text):
    rewrite(path, lambda files: files.update({bundle.MANIFEST: text}))
    with pytest.raises(BundleError, match="manifest|format 2"):
        verify_bundle(path, set())


def test_an_archive_that_was_packed_again_is_told_from_changed_files(path):
    with pytest.raises(BundleError, match="its files are unchanged and signed, but it was packed again"):
        verify_bundle(rewrite(path, lambda files: None), known_public_keys())
