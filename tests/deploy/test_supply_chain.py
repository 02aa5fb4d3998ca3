"""Licences, SBOM and audit of the production packages, and the scripts of other projects."""

import hashlib
import json
import re
import tomllib
from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from authzconsole.ops import Refusal, supply_chain
from tests.deploy.conftest import ROOT, locked_requirements

SCRIPTS = tomllib.loads((ROOT / "requirements" / "scripts.toml").read_text())["file"]


def test_the_licences_of_all_production_packages_are_permitted():
    names = sorted(
        {name for lock in supply_chain.production_locks() for name in supply_chain.locked_names(lock)}
    )
    licences = supply_chain.installed_licences(names)
    needed = {requirement.name for requirement in locked_requirements("run.txt")}
    assert needed <= set(licences) and len(needed) > 50
    assert supply_chain.licence_problems(licences) == []


@pytest.mark.parametrize(
    ("name", "licence", "is_permitted"),
    [
        ("one", "MIT", True),
        ("one", "Apache-2.0 OR BSD-3-Clause", True),
        ("one", "BSD License; MIT License", True),
        ("one", "GPL-3.0-only", False),
        ("one", "UNKNOWN", False),
        ("one", "MIT AND AGPL-3.0", False),
        ("psycopg", "LGPL-3.0-only", True),
        ("other", "LGPL-3.0-only", False),
        ("psycopg", "GPL-3.0-only", False),
    ],
)
def test_only_listed_licences_and_checked_exceptions_are_permitted(name, licence, is_permitted):
    assert (supply_chain.licence_problems({name: licence}) == []) is is_permitted


def test_the_sbom_lists_every_production_package(tmp_path, capsys):
    supply_chain.write_sbom(tmp_path / "sbom.json")
    document = json.loads((tmp_path / "sbom.json").read_text())
    listed = {(component["name"], component["version"]) for component in document["components"]}
    assert (
        document["bomFormat"] == "CycloneDX" and document["metadata"]["component"]["name"] == "authzconsole"
    )
    for requirement in locked_requirements("run.txt"):
        assert (requirement.name, str(requirement.specifier).removeprefix("==")) in listed, requirement.name


def test_an_audit_reports_vulnerabilities_and_packages_without_data():
    report = {
        "dependencies": [
            {"name": "django", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]},
            {"name": "celery", "version": "5.7", "vulns": []},
            {"name": "private", "skip_reason": "Dependency not found on PyPI"},
        ]
    }
    assert supply_chain.audit_problems(report) == (["django 1.0: PYSEC-1, fixed in 1.1"], ["private"])


def test_an_audit_without_a_network_fails_with_a_message(monkeypatch):
    # an index and a proxy at a port where nothing listens
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(
        Refusal, match="Nothing was audited, because the database of vulnerabilities cannot be read"
    ):
        supply_chain.run_audit(["--vulnerability-service", "osv", "--timeout", "1"])


def test_scripts_of_other_projects_have_the_listed_hash():
    for script in SCRIPTS:
        path = finders.find(script["path"])
        assert path, script["path"]
        actual = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        assert actual == script["sha256"], f"{script['path']} has the hash {actual}"


def test_every_listed_script_has_a_version_of_its_locked_package():
    lock = (ROOT / "requirements" / "run.txt").read_text()
    for script in SCRIPTS:
        version = re.search(rf"^{script['package']}==(\S+)", lock, re.MULTILINE)[1]
        if script["version"].startswith(script["package"]):
            assert script["version"] == f"{script['package']} {version}"
        else:
            assert f'"{script["version"]}"' in Path(finders.find(script["path"])).read_text()
        assert script["source"].startswith("https://") and script["licence"] in supply_chain.ALLOWED_LICENCES


def test_pages_load_no_script_of_another_project_that_is_not_listed():
    listed, own = {script["path"] for script in SCRIPTS}, ROOT / "authzconsole" / "static"
    for template in (ROOT / "templates").rglob("*.html"):
        for name in re.findall(r"{% static '([^']+\.(?:js|css))' %}", template.read_text()):
            assert name in listed or (own / name).is_file(), f"{template}: {name}"
