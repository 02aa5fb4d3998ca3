"""Content Security Policy, accessibility and colour contrast of the pages."""

import re
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from django.conf import settings
from django.utils import timezone

from analytics.models import AnalysisRun
from tests.support.runs import create_waiting_run

STATIC = Path(settings.BASE_DIR) / "authzconsole" / "static"
TEMPLATES = sorted(Path(settings.BASE_DIR, "templates").rglob("*.html"))
URLS = [
    "/",
    "/entities/namespace:sales?subject=user:dee&operation=delete&deleter=dee",
    "/entities/dataset:sales.orders",
    "/entities/dataset:sales.forecast",
    "/entities/dataset:sales.legacy",
    "/entities/dataset:sales.next",
    "/grant/dataset:sales.orders",
    "/revoke/dataset:sales.orders?principal=user:dee&privilege=READ",
    "/lifecycle/delete/namespace:sales",
    "/lifecycle/recreate/dataset:sales.legacy",
    "/register?parent=namespace:sales",
    "/describe/dataset:sales.orders",
    "/people/",
    "/people/?type=group",
    "/people/user:dee?in=namespace:sales",
    "/people/group:operators",
    "/people/add",
    "/people/membership?verb=remove&user=grp&group=operators",
    "/people/membership?group=operators",
    "/people/compare?one=dee&other=grp",
    "/people/leaving/user:ned",
    "/my-access",
    "/accounts/",
    "/accounts/user:dee",
    "/accounts/tokens/",
    "/accounts/tokens/new",
    "/entities/namespace:sales?subject=user:dee",
    "/search?q=orders",
    "/search",
    "/analyses/",
    "/plans/",
    "/plans/many?within=namespace:sales",
    "/plans/many?address=dataset:sales.orders",
    "/plans/import",
    "/policies/?generation=final&with=core",
    "/policies/core/activate",
    "/journal/",
    "/journal/proof",
    "/password",
    "/nowhere",
]

FORBIDDEN = {
    "an inline style": re.compile(r"\sstyle\s*=|<style\b"),
    "an event handler": re.compile(r"\son[a-z]+\s*=|\shx-on\b|\sdata-hx-on\b"),
    "an inline script": re.compile(r"<script(?![^>]*\ssrc=)|javascript:"),
    "a resource of another host": re.compile(r"(?:src|href|action)=\"(?:https?:)?//"),
}


def violations(text: str) -> list[str]:
    return [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_a_template_meets_the_policy_and_names_generations_by_their_word(template):
    text = template.read_text()
    assert violations(text) == []
    # pages call the rules of a generation its policies
    words = re.sub(r"{%.*?%}|{{.*?}}|acceptance rules", "", text, flags=re.IGNORECASE)
    assert not re.search(r"\brules\b", words, re.IGNORECASE)


@pytest.mark.parametrize("url", URLS)
def test_a_page_meets_its_policy_and_has_labels_and_unique_ids(url, browse):
    response = browse("ada").get(url)
    # permalinks of answers are absolute
    text = response.content.decode().replace(f'href="{settings.PUBLIC_URL}/', 'href="/')
    assert violations(text) == []
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    ids = re.findall(r'\sid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for field in re.findall(r"<(?:input|select|textarea)\b[^>]*>", text):
        if 'type="hidden"' not in field and 'type="checkbox"' not in field:
            assert f'for="{re.search(r"id=.([^ >]+?).(?: |>)", field)[1]}"' in text, field


def test_each_kind_of_violation_is_found():
    texts = (
        '<p style="x">',
        '<p onclick="x">',
        "<script>x</script>",
        '<a href="//elsewhere/">',
        '<button hx-on:click="x">',
        '<script src="/a.js" defer></script>',
    )
    assert [violations(text) for text in texts] == [
        ["an inline style"],
        ["an event handler"],
        ["an inline script"],
        ["a resource of another host"],
        ["an event handler"],
        [],
    ]


def test_htmx_does_not_evaluate_code_add_styles_or_cache_pages(browse):
    text = browse("ada").html("/")
    for setting in (
        '"includeIndicatorStyles": false',
        '"allowEval": false',
        '"historyCacheSize": 0',
        '"selfRequestsOnly": true',
    ):
        assert setting in text


def test_the_page_of_a_run_refreshes_only_while_it_runs(browse, htmx):
    run = create_waiting_run(
        state="running",
        stage="spark",
    )
    client, url = browse("ada"), f"/analyses/{run.pk}/"
    page = client.html(url)
    assert (
        'hx-trigger="every 250ms"' in page
        and '<noscript><meta http-equiv="refresh" content="3"></noscript>' in page
    )
    assert 'hx-trigger="every 250ms"' in client.html(url, headers=htmx("run"))
    AnalysisRun.objects.update(requested_at=timezone.now() - timedelta(seconds=10))
    assert 'hx-trigger="every 1s"' in client.html(url, headers=htmx("run"))
    AnalysisRun.objects.update(state="failed", error="the disk is full")
    part = client.html(url, headers=htmx("run"))
    assert 'hx-trigger="every' not in part and "the disk is full" in part and "<html" not in part


# Tokens

TEXT = ("ink", "ink-2", "ink-3", "accent", "allowed", "denied", "warning", "planned")
SURFACES = ("ground", "surface", "sunken")
ON_TINT = ("accent", "allowed", "denied", "warning", "planned")


def tokens(mode: str) -> dict[str, str]:
    text = (STATIC / "css" / "tokens.css").read_text()
    light, dark = text.split("@media (prefers-color-scheme: dark)", 1)
    light_tokens = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light))
    if mode == "light":
        return light_tokens
    return light_tokens | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", dark.split("\n}\n", 1)[0]))


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_text_and_the_borders_of_fields_have_enough_contrast(mode):
    colours = tokens(mode)
    pairs = [(text, surface) for text in TEXT for surface in SURFACES]
    pairs += [(name, f"{name}-tint") for name in ON_TINT] + [("ink", f"{name}-tint") for name in ON_TINT]
    pairs += [("on-accent", "accent"), ("on-denied", "denied")]
    poor = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in pairs}
    assert {pair: figure for pair, figure in poor.items() if figure < 4.5} == {}

    assert min(contrast(colours["line-strong"], colours[surface]) for surface in ("surface", "ground")) >= 3


def mixed(colour: str, surface: str, percent: int) -> str:
    """Return the colour of `color-mix(in srgb, colour percent, surface)`."""
    parts = zip(*(bytes.fromhex(name.removeprefix("#")) for name in (colour, surface)), strict=True)
    return "#" + bytes(round((one * percent + other * (100 - percent)) / 100) for one, other in parts).hex()


def scale_colours(rule: str, token: str, colours: dict[str, str]) -> list[str]:
    """Return the colours of the steps 1 to 5. rule: their rules in charts.css, with `(step)` and `(percent)`."""
    css = (STATIC / "css" / "charts.css").read_text()
    steps = dict(re.findall(rule.replace("(step)", r"(\d)").replace("(percent)", r"(\d+)%"), css))
    # the strongest step may be the colour itself
    steps.setdefault("5", "100")
    assert sorted(steps) == list("12345")
    return [mixed(colours[token], colours["surface"], int(steps[step])) for step in "12345"]


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(
    ("rule", "token", "strong_text"),
    [
        (r"\.shade-(step) > rect \{\s+--share: (percent)", "denied", "ink"),
        (
            r"\n\.heat-(step) rect \{\s+fill: color-mix\(in srgb, var\(--accent\) (percent)",
            "accent",
            "on-accent",
        ),
        (
            r"\.tile\.heat-(step) rect \{\s+fill: color-mix\(in srgb, var\(--accent\) (percent)",
            "accent",
            "ink",
        ),
    ],
    ids=["share-missing", "heat-map", "treemap-of-viewers"],
)
def test_the_steps_of_a_chart_keep_their_order_in_greyscale_and_their_text_is_readable(
    rule, token, strong_text, mode
):
    colours = tokens(mode)
    scale = scale_colours(rule, token, colours)
    # lightness, which is all that greyscale keeps, moves away from that of the page, in steps that can be seen
    towards_ink = sorted(scale, key=luminance, reverse=mode == "light")
    assert scale == towards_ink
    assert min(contrast(one, other) for one, other in pairwise([colours["surface"], *scale])) >= 1.1
    texts = ["ink"] * 3 + [strong_text] * 2
    assert min(contrast(colours[text], colour) for text, colour in zip(texts, scale, strict=True)) >= 4.5
