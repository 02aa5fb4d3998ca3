"""The worked examples of the API documentation give the answers that they state, in curl and in Python.

The module has one test, because a worker caches the ids of the permissions, and they change with each test.
"""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import call_command

from authzconsole.common.tokens import create_token
from authzconsole.management.commands.bootstrap import DEMO_TENANT
from grants.models import Role, User
from tests.support.authors import COMMAND

pytestmark = [
    pytest.mark.spark,
    pytest.mark.worker,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
]
SECTIONS = (settings.BASE_DIR / "authzconsole/rest/worked_examples.md").read_text().split("\n### ")
SEPARATOR = "next example"
SHELLS = {
    "bash": ["bash", "-e", "-o", "pipefail", "-c"],
    "python": [sys.executable, "-c"],
}
SEPARATE = {"bash": f"\necho; echo '{SEPARATOR}'\n", "python": f"\nprint('{SEPARATOR}')\n"}


def code(section: str, language: str) -> str:
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def contains(answer, stated) -> bool:
    """Return whether an answer has what the example states; it may have further members."""
    if isinstance(stated, dict):
        return all(contains(answer[name], value) for name, value in stated.items())
    if isinstance(stated, list):
        return len(answer) == len(stated) and all(map(contains, answer, stated))
    return answer == stated


@pytest.fixture
def environment(worker_console, live_server, tmp_path):
    call_command("import_tenant", str(DEMO_TENANT), stdout=io.StringIO())
    User.objects.create_user("admin", password=None, role=Role.ADMINISTRATOR, is_principal=False)
    token = create_token(
        author=COMMAND,
        owner="admin",
        name="examples",
        scopes=["read", "administer", "decide"],
        days=1,
    )
    return os.environ | {"API": f"{live_server.url}/api/v1", "TOKEN": token.secret}


def run(language: str, environment: dict[str, str], folder) -> list:
    """Run all examples in one program, as a reader does, and return the last answer of each."""
    # the test has a token already, and the port of its own server
    begin = re.sub(r"^export .*$", "", code(SECTIONS[0], language), flags=re.MULTILINE)
    program = SEPARATE[language].join([begin, *(code(section, language) for section in SECTIONS[1:])])
    done = subprocess.run(
        [*SHELLS[language], program],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, *outputs = done.stdout.split(f"{SEPARATOR}\n")
    return [json.loads(output.strip().splitlines()[-1]) for output in outputs]


def test_every_example_answers_in_curl_and_python_what_it_states(environment, tmp_path):
    stated = [json.loads(code(section, "json")) for section in SECTIONS[1:]]
    assert len(stated) == 5
    for language in ("bash", "python"):
        for answer, expected in zip(run(language, environment, tmp_path), stated, strict=True):
            assert contains(answer, expected), (language, answer)
        # the same examples must work again
        undo(environment, tmp_path)


def undo(environment: dict[str, str], folder) -> None:
    program = code(SECTIONS[0], "python") + (
        'call("/grants", {"revoke": [{"principal": "user:sofia.lindqvist", "entity": "dataset:sales.orders", '
        '"privileges": ["READ"]}]})\n'
        'for request in call("/access-requests?state=pending")["items"]:\n'
        "    call(f\"/access-requests/{request['number']}/withdraw\", {})\n"
    )
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=folder, check=True)
