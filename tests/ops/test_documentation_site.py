"""The documentation site builds without warnings, contains what the code defines, and needs no other host."""

import re
import subprocess
import sys
from html import unescape

import pytest
from django.conf import settings
from django.core.management import get_commands

from analytics.analyses import ANALYSES
from grants.policies.catalogue import GENERATIONS

ROOT = settings.BASE_DIR
# a resource that the browser loads by itself; a link may lead to another host
LOADED = re.compile(r'<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)="((?:https?:)?//[^"]+)"')
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--quiet", "--doctree-dir", folder / "doctrees"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ROOT / "docs", folder / "html"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def text_of(page) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text())).split())


def test_every_page_is_in_the_navigation(site):
    pages = {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    links = set(re.findall(r'href="([\w/-]+)\.html"', (site / "index.html").read_text()))
    assert pages - links == {"index"}


def test_no_page_loads_anything_from_another_host_or_has_an_inline_script(site):
    for page in site.rglob("*.html"):
        assert LOADED.findall(page.read_text()) == [], page
        assert "<script>" not in page.read_text(), page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", style.read_text()), style


def test_the_site_can_be_searched_without_a_server(site):
    index = (site / "searchindex.js").read_text()
    # words are stored without their endings
    assert "Off-board a user" in index and '"kinds_fil"' in index


def test_every_command_has_a_section(site):
    text = text_of(site / "reference" / "commands.html")
    own = [
        name
        for name, app in get_commands().items()
        if app.startswith(("authzconsole", "grants", "analytics"))
    ]
    assert len(own) > 20 and [name for name in own if f"manage.py {name}" not in text] == []


def test_every_analysis_and_every_operation_of_the_api_is_listed(site):
    analyses = text_of(site / "reference" / "analyses.html")
    assert [analysis.question for analysis in ANALYSES.values() if analysis.question not in analyses] == []
    operations = text_of(site / "reference" / "api.html")
    assert "POST /api/v1/decisions Ask" in operations and "POST /access/v1/evaluation" in operations


def test_the_text_of_each_cited_row_stands_beside_its_rules(site):
    sys.path.insert(0, str(ROOT / "docs"))
    from generated import row_text

    text = text_of(site / "reference" / "rules.html")
    for generation in GENERATIONS.values():
        for policy in generation.policies.values():
            cited = row_text(policy.source)
            assert bool(cited) == (policy.source.row != "not named"), policy
            assert cited in text and f"{policy.operation} on {policy.kind}:" in text, policy
    assert row_text(GENERATIONS["final"].policy("dataset", "create").source).startswith(
        "ADMIN on the dataset and, for custom datasets, at least one of"
    )
    assert (
        row_text(GENERATIONS["core"].policy("namespace", "create").source)
        == "WRITE (Instance) | ALL (Namespace)"
    )


def test_the_reference_names_every_setting():
    names = {
        name
        for module in (ROOT / "authzconsole" / "settings").glob("*.py")
        for name in re.findall(r'env(?:\.\w+)?\(\s*"([A-Z_]+)"', module.read_text())
    }
    documents = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert len(names) > 80 and [name for name in sorted(names) if f"`{name}`" not in documents] == []
