"""Take screenshots of every page of a running console with the demo tenant: python -m
authzconsole.demo.screens URL FOLDER

The console needs a running worker. authzconsole/ops/screenshots.py starts such a console and stops it
afterwards.
"""

import os
import sys
import time
from pathlib import Path

MAX_RUN_SECONDS = 300
SCHEMES = ("light", "dark")
# the sizes of the window, on a desktop and on a phone
WINDOWS = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 400, "height": 860}}
OPTIONS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


def main() -> int:
    url, folder = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")
    import django

    django.setup()
    from django.conf import settings

    from authzconsole.demo.pages import PAGES, SIGNED_OUT, page_urls

    examples, session = prepare_examples()
    folder.mkdir(parents=True, exist_ok=True)
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}
    saved_paths = take_pictures(
        url, folder, ([], page_urls(examples, SIGNED_OUT)), ([cookie], page_urls(examples, PAGES))
    )
    for outdated in set(folder.glob("*.png")) - saved_paths:
        outdated.unlink()
    size_megabytes = sum(path.stat().st_size for path in saved_paths) / 1e6
    print(
        f"{len(saved_paths)} pictures of {len(PAGES) + len(SIGNED_OUT)} pages, {size_megabytes:.1f} MB, in {folder}"
    )
    return 0


def prepare_examples() -> tuple[dict[str, str], str]:
    """Create the example data.

    Return the values for the URLs of pages, and the session key of the administrator.
    """
    from django.conf import settings
    from django.test import Client

    from authzconsole.demo.staging import create_demo_examples
    from grants.models import Role, User

    User.objects.update(must_change_password=False)
    administrator, client = User.objects.filter(role=Role.ADMINISTRATOR).first(), Client()
    client.force_login(administrator)
    return create_demo_examples(administrator, wait_for), client.cookies[settings.SESSION_COOKIE_NAME].value


def wait_for(run) -> None:
    """Wait until the worker has finished the run. Exit if the run fails or takes too long."""
    deadline = time.monotonic() + MAX_RUN_SECONDS
    while not run.is_finished:
        if time.monotonic() > deadline:
            raise SystemExit(f"{run} is still {run.state} after {MAX_RUN_SECONDS} s")
        time.sleep(0.5)
        run.refresh_from_db()
    if run.error:
        raise SystemExit(f"{run} is {run.state}: {run.error}")


def take_pictures(url: str, folder: Path, *visits: tuple[list, dict[str, str]]) -> set[Path]:
    """Take the screenshots and return their paths.

    Each visit has a list of cookies and the URLs of its pages, by name.
    """
    from playwright.sync_api import sync_playwright

    from authzconsole.ops import machine

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(machine.chromium()), args=OPTIONS)
        saved_paths = {
            path for cookies, pages in visits for path in _visit(browser, url, folder, cookies, pages)
        }
        browser.close()
    return saved_paths


def _visit(browser, url: str, folder: Path, cookies: list, pages: dict[str, str]):
    context = browser.new_context(base_url=url, reduced_motion="reduce")
    context.add_cookies(cookies)
    page = context.new_page()
    for name, page_url in pages.items():
        page.set_viewport_size(WINDOWS["wide"])
        page.goto(page_url, wait_until="networkidle")
        # the tree of entities, which htmx loads when it is visible
        page.wait_for_selector("[hx-trigger^=intersect]", state="detached")
        for width, window in WINDOWS.items():
            page.set_viewport_size(window)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                path = folder / f"{name}-{scheme}-{width}.png"
                page.screenshot(path=path)
                yield path
    context.close()


if __name__ == "__main__":
    sys.exit(main())
