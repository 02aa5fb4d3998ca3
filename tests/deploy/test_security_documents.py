"""The threat model and the ASVS matrix name tests and files that exist."""

import ast
import re
from functools import cache

import pytest

from tests.deploy.conftest import ROOT

DOCUMENTS = [ROOT / "docs" / "security" / name for name in ("threat-model.md", "asvs.md")]
ROW = re.compile(r"^\| ([\d., ]+) \| (.+) \| (.+) \|$", re.MULTILINE)


@cache
def names_of_tests(path):
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_test_in_the_document_exists(document):
    links = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text())
    assert len(links) > 40
    assert [link for link in links if link[1] not in names_of_tests(link[0])] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_file_in_the_document_exists(document):
    names = re.findall(r"(?:\.\./)?((?:tests|docs|deploy|authzconsole)/[\w/.-]+\.(?:py|md|conf|sh))", document.read_text())
    assert names and [name for name in names if not (ROOT / name).is_file()] == []


def test_every_requirement_has_evidence_or_a_reason_and_is_listed_once():
    rows = ROW.findall(DOCUMENTS[1].read_text())
    numbers = [number for number, _, _ in rows]
    assert len(rows) > 180 and len(set(numbers)) == len(numbers)
    assert all(requirement.strip() and evidence.strip() for _, requirement, evidence in rows)
    chapters = {int(number.split(".")[0].split(",")[0]) for number in numbers}
    assert chapters == set(range(1, 18))
