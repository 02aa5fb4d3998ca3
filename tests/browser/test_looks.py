"""The most used pages look as the pictures in `tests/browser/looks`, which were approved by a person.

A picture differs if more than MAX_SHARE of its pixels differ in a channel by more than MAX_DISTANCE of 255; smaller differences
are those of font rendering. After a change of the look, write new pictures with APPROVE_LOOKS=1, view them and commit them.
"""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings
from PIL import Image

from authzconsole.demo.pages import PAGES, page_urls

APPROVED = Path(__file__).parent / "looks"
MAX_DISTANCE, MAX_SHARE = 24, 0.005
# by name in authzconsole/demo/pages.toml
NAMES = (
    "overview",
    "instance",
    "namespace",
    "dataset",
    "ask-answered",
    "people",
    "person",
    "plans",
    "plan",
    "request",
    "review",
    "journal",
)
# every page in a wide window in light, and two in a narrow one in dark
LOOKS = {"wide": ("light", 1280, NAMES), "narrow": ("dark", 390, ("overview", "people"))}
# times, numbers of days and hashes are others in each run
FREEZE = """() => {
    for (const time of document.querySelectorAll("time")) time.textContent = "some time ago";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data
        .replace(/\\d{4}-\\d\\d-\\d\\d/g, "2000-01-01").replace(/\\d\\d:\\d\\d(:\\d\\d)?/g, "00:00")
        .replace(/\\d{1,2} [A-Z][a-z]{2,8} \\d{4}/g, "1 Jan 2000").replace(/[0-9a-f]{12,}/g, "0".repeat(12));
    document.activeElement.blur();
}"""

# on a slow machine, the network is idle before htmx has requested the badges of the navigation
IS_LOADED = """() => !document.querySelector(".htmx-request, .effect-loading")
    && [...document.querySelectorAll("[hx-trigger=load]")].every((part) => part.textContent.trim())"""


@pytest.mark.browser
@pytest.mark.slow
# plans and reviews show their numbers, which otherwise depend on the tests that ran before
@pytest.mark.django_db(transaction=True, reset_sequences=True)
def test_the_most_used_pages_look_as_approved(demo, chromium, live_server, tmp_path):
    examples, client = demo
    urls, faults = page_urls(examples, PAGES), []
    for window, (scheme, width, names) in LOOKS.items():
        context = chromium.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}]
        )
        page = context.new_page()
        for name in names:
            page.goto(urls[name], wait_until="networkidle")
            page.wait_for_function(IS_LOADED)
            page.evaluate("document.fonts.ready")
            page.evaluate(FREEZE)
            picture = Image.open(io.BytesIO(page.screenshot(animations="disabled"))).convert("RGB")
            path = APPROVED / f"{name}-{window}.webp"
            if os.environ.get("APPROVE_LOOKS"):
                picture.save(path, lossless=True, quality=100, method=6)
            elif (share := share_of_difference(picture, Image.open(path).convert("RGB"))) > MAX_SHARE:
                picture.save(tmp_path / path.name, lossless=True)
                faults.append(f"{path.name}: {share:.2%} differ, see {tmp_path / path.name}")
        context.close()
    assert faults == []


def share_of_difference(picture: Image.Image, approved: Image.Image) -> float:
    """Return the share of pixels that differ, from 0 to 1; 1 for pictures of different sizes."""
    if picture.size != approved.size:
        return 1.0
    one, other = (np.asarray(image, dtype=np.int16) for image in (picture, approved))
    return float((np.abs(one - other).max(axis=2) > MAX_DISTANCE).mean())


def test_a_change_of_the_look_is_a_difference_and_font_rendering_is_none():
    approved = Image.new("RGB", (100, 100), "white")
    rendering, change = approved.copy(), approved.copy()
    rendering.paste((235, 235, 235), (0, 0, 100, 50))
    change.paste((23, 115, 74), (0, 0, 10, 10))
    assert share_of_difference(rendering, approved) <= MAX_SHARE < share_of_difference(change, approved)
