"""The threat model and the ASVS matrix name tests and files that exist."""

import ast
import re
from functools import cache

import pytest

from tests.deploy.conftest import ROOT

DOCUMENTS = [ROOT / "docs" / "security" / name for name in ("threat-model.md", "asvs.md")]
ROW = re.compile(r"^\| (\d[\d.]+)(?: to (\d[\d.]+))? \| (.+) \| (.+) \|$", re.MULTILINE)
# The number of requirements of levels 1 and 2 in each section of ASVS 5.0.0. Those of level 3 always have the
# last numbers.
SECTIONS = {
    "1.1": 2,
    "1.2": 9,
    "1.3": 11,
    "1.4": 3,
    "1.5": 2,
    "2.1": 3,
    "2.2": 3,
    "2.3": 4,
    "2.4": 1,
    "3.2": 2,
    "3.3": 4,
    "3.4": 6,
    "3.5": 5,
    "3.7": 2,
    "4.1": 3,
    "4.2": 1,
    "4.3": 2,
    "4.4": 4,
    "5.1": 1,
    "5.2": 3,
    "5.3": 2,
    "5.4": 3,
    "6.1": 3,
    "6.2": 12,
    "6.3": 4,
    "6.4": 4,
    "6.5": 5,
    "6.6": 3,
    "6.8": 4,
    "7.1": 3,
    "7.2": 4,
    "7.3": 2,
    "7.4": 5,
    "7.5": 2,
    "7.6": 2,
    "8.1": 2,
    "8.2": 3,
    "8.3": 1,
    "8.4": 1,
    "9.1": 3,
    "9.2": 4,
    "10.1": 2,
    "10.2": 2,
    "10.3": 4,
    "10.4": 11,
    "10.5": 5,
    "10.6": 2,
    "10.7": 3,
    "11.1": 2,
    "11.2": 3,
    "11.3": 3,
    "11.4": 4,
    "11.5": 1,
    "11.6": 1,
    "12.1": 3,
    "12.2": 2,
    "12.3": 4,
    "13.1": 1,
    "13.2": 5,
    "13.3": 2,
    "13.4": 5,
    "14.1": 2,
    "14.2": 4,
    "14.3": 3,
    "15.1": 3,
    "15.2": 3,
    "15.3": 7,
    "16.1": 1,
    "16.2": 5,
    "16.3": 4,
    "16.4": 3,
    "16.5": 3,
    "17.1": 1,
    "17.2": 4,
    "17.3": 2,
}


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


def test_every_requirement_of_levels_1_and_2_is_listed_once_in_order_with_evidence_or_a_reason():
    numbers = []
    for first, last, requirement, evidence in ROW.findall(DOCUMENTS[1].read_text()):
        section, _, position = first.rpartition(".")
        end_section, _, end = (last or first).rpartition(".")
        assert section == end_section and requirement.strip() and evidence.strip()
        numbers += [f"{section}.{number}" for number in range(int(position), int(end) + 1)]
    assert numbers == [
        f"{section}.{number}" for section, count in SECTIONS.items() for number in range(1, count + 1)
    ]
