"""What the README shows is what happens."""

import io
import json
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command, get_commands

README = (Path(settings.BASE_DIR) / "README.md").read_text()


@pytest.mark.django_db
def test_the_question_of_the_readme_gets_the_answer_that_it_shows(tmp_path):
    call_command("import_tenant", str(Path(settings.BASE_DIR) / "authzconsole/demo/tenant.jsonl"), stdout=io.StringIO())
    question = tmp_path / "question.jsonl"
    question.write_text(re.search(r"^\{.*\}$", README, re.MULTILINE).group())
    output = io.StringIO()
    call_command("decide", str(question), stdout=output)
    answer = json.loads(output.getvalue())
    shown = re.search(r"^Denied: .*$", README, re.MULTILINE).group()
    assert (answer["decision"], answer["context"]["sentence"]) == (False, shown)
    assert answer["context"]["source"] | {"note": ""} == {"seed": "002", "table": "Namespaces", "row": "Delete", "note": ""}


def test_every_command_that_the_readme_names_exists():
    named = set(re.findall(r"manage\.py (\w+)", README))
    assert {"decide", "analyze", "import_tenant", "verify_journal"} <= named <= set(get_commands())
    targets = (Path(settings.BASE_DIR) / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target


def test_every_file_that_the_readme_names_exists():
    row = re.compile(r"^\| `([\w/]+)/`.*\| (.*) \|$", re.MULTILINE)
    for folder, files in row.findall(README):
        assert (Path(settings.BASE_DIR) / folder).is_dir(), folder
        for name in re.findall(r"`([\w./]+)`", files):
            assert (Path(settings.BASE_DIR) / folder / name).exists(), f"{folder}/{name}"


def test_the_situations_of_the_demo_tenant_stand_in_the_readme():
    assert (Path(settings.BASE_DIR) / "authzconsole/demo/SITUATIONS.md").read_text() in README
