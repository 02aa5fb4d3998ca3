"""The named URLs of the console, to compare them with the lists in authzconsole/demo/pages.toml."""

import re
from collections.abc import Iterator

from django.urls import URLPattern, get_resolver, resolve

from authzconsole.demo.pages import NO_PAGE

PLACEHOLDER = re.compile(r"\{[\w-]+\}")
# URL modules of JSON APIs
API_URL_MODULES = tuple(f"authzconsole.{name}.urls" for name in ("api", "cdap_api", "rest", "scim"))


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
