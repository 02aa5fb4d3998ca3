"""The console serves the documentation site to signed-in accounts, and nothing outside its folder."""

import pytest
from django.test import Client

from grants.models import User
from tests.support.cast import create_sample_tenant


@pytest.fixture
def site(settings, tmp_path, db):
    create_sample_tenant()
    folder = tmp_path / "docs"
    (folder / "_static").mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Authorization console</h1>")
    (folder / "_static" / "site.css").write_text("h1 { color: red }")
    (tmp_path / "secret_key").write_text("secret")
    (tmp_path / "docs-other").mkdir()
    (tmp_path / "docs-other" / "page.html").write_text("secret")
    settings.DOCS_ROOT = folder
    return folder


def signed_in(name: str) -> Client:
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def content(response) -> bytes:
    return b"".join(response.streaming_content)


def test_every_account_reads_the_site(site):
    for name in ("ada", "aud", "out"):
        client = signed_in(name)
        assert client.get("/docs")["Location"] == "/docs/index.html"
        page = client.get("/docs/index.html")
        assert (page["Content-Type"], content(page)) == ("text/html", b"<h1>Authorization console</h1>")
        style = client.get("/docs/_static/site.css")
        assert (style["Content-Type"], content(style)) == ("text/css", b"h1 { color: red }")


def test_visitors_are_sent_to_the_sign_in_page(site):
    for path in ("/docs", "/docs/index.html"):
        response = Client().get(path)
        assert response.status_code == 302 and response["Location"].startswith("/sign-in?next=/docs")


@pytest.mark.parametrize(
    "path",
    [
        "../secret_key",
        "_static/../../secret_key",
        "%2e%2e/secret_key",
        "..%2fsecret_key",
        "%2e%2e%2fsecret_key",
        "../docs-other/page.html",
        "/etc/passwd",
        "//etc/passwd",
        "_static",
        "_static/",
        "",
        "missing.html",
        "index.html%00.css",
        "..\\secret_key",
        f"{'x' * 300}.html",
    ],
)
def test_a_path_that_leads_out_of_the_site_is_not_found(site, path):
    client = signed_in("ada")
    assert client.get(f"/docs/{path}").status_code == 404
    assert content(client.get("/docs/index.html")) == b"<h1>Authorization console</h1>"


def test_the_site_runs_only_scripts_of_the_console(site):
    response = signed_in("ada").get("/docs/index.html")
    policy = response["Content-Security-Policy"]
    response.close()
    assert "script-src 'self';" in f"{policy};" and "style-src 'self' 'unsafe-inline'" in policy


def test_a_console_without_the_site_says_how_to_build_it(site, settings, tmp_path):
    settings.DOCS_ROOT = tmp_path / "nothing"
    for url in ("/docs", "/docs/guides/reviews.html"):
        response = signed_in("ada").get(url)
        assert response.status_code == 404 and b"make docs" in response.content
