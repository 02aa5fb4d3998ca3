"""Every page is in the lists that tests and documentation take pages from.

CONTRIBUTING.md refers to these tests.
"""

from pathlib import Path

import pytest
from django.conf import settings
from django.urls import resolve

from authzconsole.demo.pages import EFFECT_PARTS, NO_PAGE, PAGES, SIGNED_OUT
from tests.ops.test_layout import AREAS
from tests.support.page_urls import page_url_names, url_name
from tests.web.test_access import PAGES as ACCESS
from tests.web.test_access import WRITES
from tests.web.test_access import browse as browse
from tests.web.test_access import cast as cast
from tests.web.test_access import numbers as numbers
from tests.web.test_access import shared_data as shared_data

TEMPLATES = Path(settings.BASE_DIR) / "templates"
NOT_IN_AN_AREA = {
    "healthz",
    "readyz",
    "metrics",
    "sign-in",
    "sign-out",
    "invitation",
    "openid_connect_login",
    "openid_connect_callback",
    "saml-acs",
    "saml-metadata",
    "saml-slo",
    "passkey-sign-in",
    "account_login",
    "mfa_authenticate",
    "rest-root",
    "rest-swagger",
    "rest-redoc",
}


def name_of(url: str) -> str:
    """Return the name of a URL of the access tests; empty for a URL that does not exist."""
    path = url.format(run=1, plan=1, token=1, review=1).partition("?")[0]
    return "" if path == "/nowhere" else resolve(path).url_name


def test_every_url_has_an_example_or_is_no_page():
    """Screenshots, the accessibility test and the benchmark of pages open the examples."""
    examples = {url_name(address) for address in [*PAGES.values(), *SIGNED_OUT.values()]}
    assert not examples & NO_PAGE.keys()
    assert set(page_url_names()) == examples | NO_PAGE.keys()


def test_every_url_has_a_row_in_the_access_tests():
    tested = {name_of(url) for url, *_ in [*ACCESS, *WRITES]}
    assert set(page_url_names()) - NOT_IN_AN_AREA - tested == set()


@pytest.mark.parametrize("url", [url for url, status, *_ in ACCESS if status == 200])
def test_every_page_has_a_template_in_the_folder_of_its_area(url, browse, numbers):
    url = url.format(**numbers)
    match = resolve(url.partition("?")[0])
    if match.url_name in NO_PAGE:
        pytest.skip("it is no page")
    area = match.func.__module__.split(".")[2]
    answer = browse("ada").get(url)
    used = [template.name for template in answer.templates]
    assert area in AREAS and any(name.startswith(f"{area}/") for name in used), used
    assert b"<h1" in answer.content and b"<title>" in answer.content


def test_every_page_that_loads_an_effect_names_its_part(browse, numbers):
    """The benchmark of pages measures these parts."""
    parts = {url_name(PAGES[name]): part for name, part in EFFECT_PARTS.items()}
    for url in (url.format(**numbers) for url, status, *_ in ACCESS if status == 200):
        response, name = browse("ada").get(url), resolve(url.partition("?")[0]).url_name
        if not response.streaming and b"effect-loading" in response.content:
            assert f'id="{parts[name]}"' in response.content.decode()


def test_the_markup_of_a_page_head_is_in_the_base_template():
    """The others are parts that scripts replace together with other parts, or are shown without the frame of the console."""
    templates = {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        if 'class="head-row"' in path.read_text()
    }
    assert templates == {
        "base.html",
        "accounts/_account.html",
        "accounts/reauthentication.html",
        "entities/_detail.html",
        "reviews/page.html",
    }
