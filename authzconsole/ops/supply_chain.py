"""Describe and check the packages of the production lock: `make sbom`, `make audit` and `make licences`."""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import ROOT, VENV, Refusal
from .processes import exit_status
from .setup import setup

LOCKS = ROOT / "requirements"
SBOM = ROOT / "var" / "sbom.json"
# permissive licences, and licences with copyleft for single files only (MPL); spelled as in the package
# metadata
ALLOWED_LICENCES = frozenset(
    {
        "0BSD",
        "3-Clause BSD License",
        "Apache License 2.0",
        "Apache Software License",
        "Apache-2.0",
        "BSD 3-Clause",
        "BSD License",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "ISC License (ISCL)",
        "MIT",
        "MIT License",
        "MIT-0",
        "MPL-2.0",
        "Mozilla Public License 2.0 (MPL 2.0)",
        "PSF-2.0",
        "Python Software Foundation License",
        "The Unlicense (Unlicense)",
        "Zlib",
    }
)
# by package: the licence, which was checked by hand, and why the package may be used
EXCEPTIONS = {
    "psycopg": ("LGPL-3.0-only", "a library that is used without changes and can be replaced"),
    "psycopg-binary": ("LGPL-3.0-only", "a library that is used without changes and can be replaced"),
    "qrcode": (
        "BSD License; Other/Proprietary License",
        "BSD; the second part names the MIT licence of its origin",
    ),
    "supervisor": (
        "BSD-derived (http://www.repoze.org/LICENSE.txt)",
        "a BSD licence with a clause about trademarks",
    ),
}


def locked_names(lock: Path) -> list[str]:
    return re.findall(r"^([a-z0-9][a-z0-9._-]*)==", lock.read_text(), re.MULTILINE)


def production_locks() -> list[Path]:
    return [LOCKS / "run.txt", *sorted(LOCKS.glob("extra-*.txt"))]


def installed_licences(names: Sequence[str]) -> dict[str, str]:
    """Return the licence of each package that is installed in .venv."""
    command = [
        VENV / "bin" / "pip-licenses",
        "--from=mixed",
        "--with-system",
        "--format=json",
        "--packages",
        *names,
    ]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {re.sub(r"[-_.]+", "-", row["Name"]).lower(): row["License"] for row in rows}


def licence_problems(licences: Mapping[str, str]) -> list[str]:
    """Return a sentence for each package without a permitted licence."""
    problems = []
    for name, licence in sorted(licences.items()):
        parts = [
            part.strip(" ()") if part.strip() not in ALLOWED_LICENCES else part.strip()
            for part in re.split(r";| AND | OR ", licence)
        ]
        if not set(parts) <= ALLOWED_LICENCES and EXCEPTIONS.get(name, ("", ""))[0] != licence:
            problems.append(
                f"{name} has the licence {licence!r}, which is not permitted: remove the package, or add it to "
                "EXCEPTIONS in authzconsole/ops/supply_chain.py"
            )
    return problems


def check_licences() -> None:
    names = sorted({name for lock in production_locks() for name in locked_names(lock)})
    licences = installed_licences(names)
    if problems := licence_problems(licences):
        raise Refusal("\n".join(problems))
    print(f"The licences of {len(licences)} packages are permitted.")


def write_sbom(path: Path) -> None:
    """Write the CycloneDX document of the production lock."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [
        VENV / "bin" / "cyclonedx-py",
        "requirements",
        LOCKS / "run.txt",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--output-reproducible",
        "--of",
        "JSON",
        "--output-file",
        path,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refusal(f"cyclonedx-py failed:\n{done.stderr}")
    components = len(json.loads(path.read_text())["components"])
    print(f"{path} lists {components} packages.")


def audit_problems(report: Mapping) -> tuple[list[str], list[str]]:
    """Return the vulnerabilities in a report of pip-audit, and the packages about which it found no data."""
    vulnerabilities = [
        f"{package['name']} {package['version']}: {fault['id']}"
        + (f", fixed in {', '.join(fault['fix_versions'])}" if fault["fix_versions"] else ", not fixed yet")
        for package in report["dependencies"]
        for fault in package.get("vulns", [])
    ]
    return vulnerabilities, [
        package["name"] for package in report["dependencies"] if package.get("skip_reason")
    ]


def run_audit(options: Sequence[str]) -> None:
    """Compare the locks with the known vulnerabilities.

    Raise Refusal if there is one, or if a package was not compared.
    """
    locks = [option for lock in production_locks() for option in ("--requirement", str(lock))]
    command = [
        VENV / "bin" / "pip-audit",
        *locks,
        "--disable-pip",
        "--require-hashes",
        "--progress-spinner=off",
        "--format=json",
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        vulnerabilities, unknown = audit_problems(json.loads(done.stdout))
    except (ValueError, KeyError):
        reason = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise Refusal(
            f"Nothing was audited, because the database of vulnerabilities cannot be read: {reason[0]}\n"
            "make audit needs access to pypi.org, or AUDIT_OPTIONS='--vulnerability-service osv' with access to "
            "api.osv.dev."
        ) from None
    if vulnerabilities:
        raise Refusal("Known vulnerabilities:\n" + "\n".join(vulnerabilities))
    if unknown:
        raise Refusal(
            f"{len(unknown)} packages were not audited, such as {unknown[0]}: the index has no data about them. "
            "A mirror may not offer vulnerabilities; make audit needs access to pypi.org."
        )
    print("No known vulnerability.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("sbom", "audit", "licences"))
    parser.add_argument("--output", type=Path, default=SBOM)
    arguments, options = parser.parse_known_args()
    setup("quick")
    if arguments.command == "sbom":
        write_sbom(arguments.output)
    elif arguments.command == "audit":
        run_audit(options)
    else:
        check_licences()


if __name__ == "__main__":
    sys.exit(exit_status(main))
