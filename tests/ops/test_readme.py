"""The documentation matches the product: its examples, commands, files and links."""

import importlib
import io
import json
import re
import subprocess
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command, get_commands

ROOT = Path(settings.BASE_DIR)
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# words in backticks that name a file or folder of the repository
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|html|css|js|toml|txt))`")
PICTURE = re.compile(r"!\[[^]]*\]\(([^)]+\.png)\)")
LINK = re.compile(r"\]\(((?!https?://|#)[^)#]+)")


def existing_files() -> set[str]:
    """Return the paths of all files that belong to the repository."""
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    return set(
        subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    )


@pytest.mark.django_db
def test_the_question_in_the_readme_gets_the_answer_in_the_readme(tmp_path):
    call_command("import_tenant", str(ROOT / "authzconsole/demo/tenant.jsonl"), stdout=io.StringIO())
    question = tmp_path / "question.jsonl"
    question.write_text(
        re.search(r"^echo '(\{.*\})' \| \.venv/bin/python manage.py decide$", README, re.MULTILINE)[1]
    )
    output = io.StringIO()
    call_command("decide", str(question), stdout=output)
    answer = json.loads(output.getvalue())
    sentence = re.search(r"^Denied: .*$", README, re.MULTILINE).group()
    assert (answer["decision"], answer["context"]["sentence"]) == (False, sentence)
    assert answer["context"]["source"] | {"note": ""} == {
        "seed": "002",
        "table": "Namespaces",
        "row": "Delete",
        "note": "",
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_that_a_document_names_exists(document):
    commands = set(re.findall(r"manage\.py (\w+)", document.read_text()))
    assert commands <= set(get_commands())
    targets = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([\w-]+)|^    make ([\w-]+)", document.read_text(), re.MULTILINE):
        assert re.search(rf"^{''.join(target)}:", targets, re.MULTILINE), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document):
    """A path in backticks starts at the root or is the end of a path; a name in capitals is a placeholder."""
    files = existing_files()
    folders = {str(parent) for file in files for parent in Path(file).parents}
    for name in FILE.findall(document.read_text()):
        path = name.rstrip("/")
        exists = (
            path in folders
            or any(file == path or file.endswith(f"/{path}") for file in files)
            or any(folder.endswith(f"/{path}") for folder in folders)
        )
        is_placeholder = re.search(r"(^|[/-])[A-Z_]{2,}([./]|$)", name)
        assert exists or is_placeholder or path.split("/")[0] in ("var", ".venv"), name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_of_a_document_leads_to_a_file(document):
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_readme_has_at_most_120_lines():
    assert len(README.splitlines()) <= 120


def test_every_class_and_function_that_the_glossary_names_exists():
    glossary = (ROOT / "docs" / "glossary.md").read_text()
    names = re.findall(r"`((?:entities|grants|analytics|authzconsole)(?:\.\w+)+)`", glossary)
    assert len(names) > 40
    for name in names:
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_the_stored_pictures_are_those_that_a_document_shows():
    shown = {
        str((document.parent / picture).resolve().relative_to(ROOT))
        for document in DOCUMENTS
        for picture in PICTURE.findall(document.read_text())
    }
    assert shown == {file for file in existing_files() if file.startswith("docs/screens/")}
