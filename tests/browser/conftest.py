import io

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from playwright.sync_api import expect, sync_playwright

from authzconsole.demo.staging import create_demo_examples
from authzconsole.management.commands.bootstrap import DEMO_TENANT, create_first_administrator
from authzconsole.ops import machine
from grants.models import User
from tests.support.cast import PASSWORD
from tests.support.reports import write_sample_report

OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
# a worker, Spark and other passes share the cores, so an answer of the console may take more than 5 seconds
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def chromium(django_db_setup):
    """Start a browser for each module: while it is open, an event loop runs in this thread and Django refuses
    database access.
    """
    program = machine.chromium()
    if program is None:
        pytest.fail("Chromium is missing; `make test` installs it")
    with pytest.MonkeyPatch.context() as monkeypatch, sync_playwright() as playwright:
        monkeypatch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        browser = playwright.chromium.launch(executable_path=str(program), args=OPTIONS)
        yield browser
        browser.close()


def session_cookie(name: str, url: str) -> dict[str, str]:
    """Return the cookie of a new session of this user, in Playwright's form."""
    client = Client()
    client.force_login(User.objects.get(username=name))
    return {
        "name": settings.SESSION_COOKIE_NAME,
        "value": client.cookies[settings.SESSION_COOKIE_NAME].value,
        "url": url,
    }


@pytest.fixture
def page_of(chromium, live_server):
    """Return a function: page_of("ada") is a page on which that user is signed in. Errors in a page fail the
    test.

    with_form: sign in with the form instead of a session cookie, which takes two requests less.
    """
    contexts, faults = [], []

    def sign_in(name, *, scripts=True, width=1280, with_form=False):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, java_script_enabled=scripts, base_url=live_server.url
        )
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: faults.append(message.text) if "Content Security" in message.text else None,
        )
        if with_form:
            page.goto("/sign-in")
            page.get_by_label("Name").fill(name)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Sign in").click()
            page.wait_for_url("/")
        else:
            context.add_cookies([session_cookie(name, live_server.url)])
            page.goto("/")
        return page

    yield sign_in
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(cast, page_of):
    """Return a page of an administrator, on the sample tenant."""
    return page_of("ada")


@pytest.fixture
def demo(live_server, tmp_path, settings):
    """Create the demo tenant with a report of each analysis; return the example addresses and the client of
    an administrator.
    """
    settings.SNAPSHOT_URI = str(tmp_path)
    call_command("import_tenant", str(DEMO_TENANT), stdout=io.StringIO())
    name, _ = create_first_administrator()
    User.objects.update(must_change_password=False)
    administrator, client = User.objects.get(username=name), Client()
    client.force_login(administrator)
    return create_demo_examples(administrator, lambda run: write_sample_report(tmp_path, run)), client
