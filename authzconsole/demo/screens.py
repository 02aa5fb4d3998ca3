"""Pictures of every page of the console that runs at a URL, on the demo tenant: python -m authzconsole.demo.screens URL FOLDER

A worker must be at work there. authzconsole/ops/screenshots.py starts such a console and takes it down again.
"""

import base64
import os
import sys
import time
from pathlib import Path

import numpy as np

from authzconsole.demo.palette import png_of

LONGEST_RUN_SECONDS = 300
SCHEMES = ("light", "dark")
# what one sees before scrolling, of a desk and of a phone
WINDOWS = {"wide": {"width": 1280, "height": 900}, "narrow": {"width": 400, "height": 860}}
READ_PICTURE = """async encoded => {
    const image = await createImageBitmap(await (await fetch("data:image/png;base64," + encoded)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const data = await new Promise(done => {
        const reader = new FileReader();
        reader.onload = () => done(reader.result.split(",")[1]);
        reader.readAsDataURL(new Blob([canvas.getImageData(0, 0, image.width, image.height).data]));
    });
    return [image.width, image.height, data];
}"""
OPTIONS = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


def main() -> int:
    url, folder = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "authzconsole.settings")
    import django

    django.setup()
    from django.conf import settings

    from authzconsole.demo.pages import PAGES, SIGNED_OUT, addresses

    examples, session = staged()
    folder.mkdir(parents=True, exist_ok=True)
    cookie = {"name": settings.SESSION_COOKIE_NAME, "value": session, "url": url}
    taken = pictures(url, folder, ([], addresses(examples, SIGNED_OUT)), ([cookie], addresses(examples, PAGES)))
    for left in set(folder.glob("*.png")) - taken:
        left.unlink()
    size_megabytes = sum(path.stat().st_size for path in taken) / 1e6
    print(f"{len(taken)} pictures of {len(PAGES) + len(SIGNED_OUT)} pages, {size_megabytes:.1f} MB, in {folder}")
    return 0


def staged() -> tuple[dict[str, str], str]:
    """The examples of the pages, and the key of a session of the administrator."""
    from django.conf import settings
    from django.test import Client

    from authzconsole.demo.staging import demo_staged
    from grants.models import Role, User

    administrator, client = User.objects.filter(role=Role.ADMINISTRATOR).first(), Client()
    client.force_login(administrator)
    return demo_staged(administrator, wait_for), client.cookies[settings.SESSION_COOKIE_NAME].value


def wait_for(run) -> None:
    """Until the worker has ended it."""
    deadline = time.monotonic() + LONGEST_RUN_SECONDS
    while not run.is_over:
        if time.monotonic() > deadline:
            raise SystemExit(f"{run} is still {run.state} after {LONGEST_RUN_SECONDS} s")
        time.sleep(0.5)
        run.refresh_from_db()
    if run.error:
        raise SystemExit(f"{run} is {run.state}: {run.error}")


def pictures(url: str, folder: Path, *visits: tuple[list, dict[str, str]]) -> set[Path]:
    """visits: the cookies of somebody, and the address of each page by its name."""
    from playwright.sync_api import sync_playwright

    from authzconsole.ops import machine

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(machine.chromium()), args=OPTIONS)
        taken = {path for cookies, pages in visits for path in _visit(browser, url, folder, cookies, pages)}
        browser.close()
    return taken


def _visit(browser, url: str, folder: Path, cookies: list, pages: dict[str, str]):
    context = browser.new_context(base_url=url, reduced_motion="reduce")
    context.add_cookies(cookies)
    page, studio = context.new_page(), context.new_page()
    for name, address in pages.items():
        page.goto(address, wait_until="networkidle")
        for width, window in WINDOWS.items():
            page.set_viewport_size(window)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                path = folder / f"{name}-{scheme}-{width}.png"
                path.write_bytes(png_of(_pixels(studio, page.screenshot())))
                yield path
    context.close()


def _pixels(studio, picture: bytes) -> np.ndarray:
    """(height, width, 4) of a PNG, as the browser reads it."""
    width, height, content = studio.evaluate(READ_PICTURE, base64.b64encode(picture).decode())
    return np.frombuffer(base64.b64decode(content), np.uint8).reshape(height, width, 4)


if __name__ == "__main__":
    sys.exit(main())
