#!/usr/bin/env python3
"""Verify evidence without the console: python3 verify.py EVIDENCE PUBLIC-KEY

EVIDENCE is the ZIP file, also if it was packed again, or a folder with its files. PUBLIC-KEY is the one that the page Evidence
of the console shows. This file needs only Python 3.8 or newer. Take it from a source that you trust, not only from the evidence.
"""

import hashlib
import json
import sys
import zipfile
from pathlib import Path

MANIFEST, SIGNATURE, PROOF = "manifest.json", "manifest.sig", "journal.jsonl"

# Ed25519 as in RFC 8032, section 6
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)


class Fault(Exception):
    """The evidence cannot be trusted. The message says why."""


def point_sum(one, other):
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % P, (one[1] + one[0]) * (other[1] + other[0]) % P
    c, d = 2 * one[3] * other[3] * D % P, 2 * one[2] * other[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def product(number, point):
    result = (0, 1, 1, 0)
    while number:
        if number & 1:
            result = point_sum(result, point)
        point, number = point_sum(point, point), number >> 1
    return result


def x_of(y, sign):
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if y >= P or (x * x - square) % P or (not x and sign):
        raise Fault("a key or a signature is no point of the curve")
    return P - x if x & 1 != sign else x


def point_of(data):
    number = int.from_bytes(data, "little")
    y, sign = number & (1 << 255) - 1, number >> 255
    x = x_of(y, sign)
    return x, y, 1, x * y % P


def is_signed(key, signature, data):
    """Return whether the signature of `data` was made with the private key of `key`."""
    if len(key) != 32 or len(signature) != 64:
        return False
    number = int.from_bytes(signature[32:], "little")
    if number >= ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signature[:32] + key + data).digest(), "little") % ORDER
    y = 4 * pow(5, P - 2, P) % P
    x = x_of(y, 0)
    left = product(number, (x, y, 1, x * y % P))
    right = point_sum(point_of(signature[:32]), product(challenge, point_of(key)))
    return not (
        (left[0] * right[2] - right[0] * left[2]) % P or (left[1] * right[2] - right[1] * left[2]) % P
    )


class Files:
    """The files of a ZIP file or of a folder."""

    def __init__(self, path):
        self.path = Path(path)
        self.archive = None if self.path.is_dir() else zipfile.ZipFile(self.path)

    def names(self):
        if self.archive is None:
            return [str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file()]
        return [name for name in self.archive.namelist() if not name.endswith("/")]

    def open(self, name):
        return (self.path / name).open("rb") if self.archive is None else self.archive.open(name)

    def read(self, name):
        with self.open(name) as stream:
            return stream.read()


def verify(files, public_key):
    """Verify the signature, the files and the journal lines. Return the manifest and the number of journal lines.

    Raise Fault if something was changed, added or removed.
    """
    names = files.names()
    for name in (MANIFEST, SIGNATURE):
        if name not in names:
            raise Fault(f"{name} is missing")
    data = files.read(MANIFEST)
    try:
        signature = bytes.fromhex(files.read(SIGNATURE).decode("ascii").strip())
    except ValueError:
        signature = b""
    if not is_signed(bytes.fromhex(public_key), signature, data):
        raise Fault(f"{MANIFEST} is not signed with this key, or was changed")
    manifest = json.loads(data)
    expected = {file["name"]: file for file in manifest["files"]}
    repeated = {name for name in names if names.count(name) > 1}
    if faulty := repeated or set(names) - {MANIFEST, SIGNATURE} - set(expected):
        raise Fault(f"{min(faulty)} was added")
    if missing := set(expected) - set(names):
        raise Fault(f"{min(missing)} is missing")
    for name, facts in sorted(expected.items()):
        digest = hashlib.sha256()
        with files.open(name) as stream:
            while chunk := stream.read(1 << 20):
                digest.update(chunk)
        if digest.hexdigest() != facts["sha256"]:
            raise Fault(f"{name} was changed")
    return manifest, verify_lines(files) if PROOF in expected else 0


def verify_lines(files):
    """Return the number of lines of the journal in the evidence. Raise Fault if a hash does not follow from its line."""
    count, hashes = 0, {}
    with files.open(PROOF) as stream:
        for text in stream:
            line = json.loads(text)
            content = json.dumps(
                [line["previous_hash"], *line["values"]], ensure_ascii=False, separators=(",", ":")
            )
            revision = line["values"][0]
            if hashlib.sha256(content.encode()).hexdigest() != line["hash"]:
                raise Fault(f"the hash of journal line {revision} does not follow from its content")
            if hashes.get(revision - 1, line["previous_hash"]) != line["previous_hash"]:
                raise Fault(f"journal line {revision} does not follow line {revision - 1}")
            hashes[revision] = line["hash"]
            count += 1
    return count


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip())
        return 2
    try:
        manifest, count = verify(Files(arguments[0]), arguments[1].strip().lower())
    except (Fault, ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        print(f"Not valid: {error}.")
        return 1
    head = manifest["journal_head"]
    print(f"Valid: {len(manifest['files'])} files are unchanged and signed.")
    print(f"The hashes of {count} lines of the journal follow from their content.")
    print(f"Compare with the page Journal: revision {head['revision']} has the hash {head['hash']}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
