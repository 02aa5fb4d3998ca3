"""The threat model and the ASVS matrix name tests and files that exist."""

import ast
import re
from functools import cache

import pytest

from tests.deploy.conftest import ROOT

DOCUMENTS = [ROOT / "docs" / "security" / name for name in ("threat-model.md", "asvs.md")]
ROW = re.compile(r"^\| (\d[\d.]+)(?: to (\d[\d.]+))? \| (.+) \| (.+) \|$", re.MULTILINE)


@cache
def names_of_tests(path):
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    return {
        node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_test_in_the_document_exists(document):
    links = re.findall(r"(tests/[\w/]+\.py)::(\w+)", document.read_text())
    assert len(links) > 40
    assert [link for link in links if link[1] not in names_of_tests(link[0])] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_every_file_in_the_document_exists(document):
    names = re.findall(
        r"(?:\.\./)?((?:tests|docs|deploy|authzconsole)/[\w/.-]+\.(?:py|md|conf|sh))", document.read_text()
    )
    assert names and [name for name in names if not (ROOT / name).is_file()] == []


def test_every_requirement_is_listed_once_in_order_with_evidence_or_a_reason():
    """The requirements of level 3, which the matrix leaves out, have the last numbers of their sections."""
    last_of_section, sections = {}, []
    for first, last, requirement, evidence in ROW.findall(DOCUMENTS[1].read_text()):
        section, _, begin = first.rpartition(".")
        end_section, _, end = (last or first).rpartition(".")
        assert section == end_section and requirement.strip() and evidence.strip()
        assert int(begin) == last_of_section.get(section, 0) + 1 <= int(end) + 1, first
        last_of_section[section] = int(end)
        sections.append([int(number) for number in section.split(".")])
    assert sections == sorted(sections) and len(last_of_section) > 70
