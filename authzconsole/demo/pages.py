"""Every page of the console with an example URL, by the name of its screenshot.

`pages.toml` lists them. INVARIANT: each named URL is in PAGES, in SIGNED_OUT, or, with the reason, in NO_PAGE
(tests/web/test_page_lists.py). Screenshots, browser tests and benchmarks use these lists.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.urls import URLPattern, get_resolver, resolve

from analytics.analyses import ANALYSES

_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PAGES: dict[str, str] = _DATA["pages"] | {name: f"/analyses/{{{name}}}/" for name in ANALYSES}
SIGNED_OUT: dict[str, str] = _DATA["signed_out"]
NO_PAGE: dict[str, str] = _DATA["no_page"]
EXAMPLES: dict[str, str] = _DATA["examples"]
PLACEHOLDER = re.compile(r"\{[\w-]+\}")
# URL modules of JSON APIs
API_URL_MODULES = ("authzconsole.api.urls", "authzconsole.rest.urls", "authzconsole.scim.urls")


def page_urls(examples: Mapping[str, str], pages: Mapping[str, str] = PAGES) -> dict[str, str]:
    """Return the path and query of each page. Raise KeyError with the name of a missing example."""
    return {name: url.format_map(examples) for name, url in pages.items()}


def url_name(url: str) -> str:
    """Return the name of the URL pattern for a URL of PAGES. Placeholders are replaced by a number first."""
    return resolve(PLACEHOLDER.sub("1", url.partition("?")[0])).url_name


def page_url_names() -> Iterator[str]:
    """Yield the name of every URL of the console except those of the JSON APIs."""
    for pattern in page_url_patterns():
        yield pattern.name
    for included in get_resolver().url_patterns:
        if not isinstance(included, URLPattern) and included.urlconf_name.__name__ in API_URL_MODULES:
            yield from (pattern.name for pattern in included.url_patterns if pattern.name in NO_PAGE)


def page_url_patterns() -> Iterator[URLPattern]:
    """Yield the URLs of the console except those of the JSON APIs."""
    for pattern in get_resolver().url_patterns:
        if isinstance(pattern, URLPattern):
            yield pattern
        elif pattern.urlconf_name.__name__.startswith("authzconsole.web."):
            yield from pattern.url_patterns
        elif pattern.urlconf_name.__name__ not in API_URL_MODULES:
            raise LookupError(
                f"{pattern.urlconf_name.__name__} is neither a module of pages nor an API: add it to {__name__}"
            )
