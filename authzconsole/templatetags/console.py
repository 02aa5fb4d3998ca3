"""Template tags and filters that format icons, numbers, times and text. Nothing here decides what an account may see."""

import re
from datetime import datetime
from pathlib import Path

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from authzconsole.web.reports.charts.treemap_layout import PORTRAIT, TreemapTile, treemap
from authzconsole.web.shared.links import AddressLink
from authzconsole.web.shared.privilege_cells import LETTERS
from entities.vocabulary import Privilege

register = template.Library()

# kinds that a deployment registers have no icon of their own
_DRAWN = set(re.findall(r'<symbol id="(\w+)"', (Path(__file__).parent.parent / "static" / "icons.svg").read_text()))
_LEVEL_ICONS = {"success": "allowed", "error": "denied", "warning": "warning", "planned": "planned"}
_QUOTED = re.compile(r"`([^`\n]+)`")
# shorter words fit into the narrowest column
_LONG_WORD = re.compile(r"\S{28,}")
_PART_ENDS = re.compile(r"(?<=[.:/])(?=[^.:/\s\d])")
_STEPS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (1_000, "year"))


@register.simple_tag
def icon(name: str) -> SafeString:
    """An icon from icons.svg. It decorates text, so screen readers skip it."""
    drawn = name if name in _DRAWN else "entity"
    return format_html('<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
                       static("icons.svg"), drawn)


@register.simple_tag
def privilege_letters() -> list[tuple[str, Privilege]]:
    """Return (letter, privilege) for each privilege, in display order."""
    return [(LETTERS[privilege], privilege) for privilege in Privilege]


@register.filter
def portrait(tiles: list[TreemapTile]) -> list[TreemapTile]:
    """The same treemap in portrait format, for phones."""
    return treemap((tile.item for tile in tiles), PORTRAIT)


@register.filter
def level_icon(level: str) -> str:
    return _LEVEL_ICONS.get(level, "info")


@register.filter
def format_sentence(text: object) -> SafeString:
    """Escape a sentence, format text in backticks as code, and let long addresses break between their parts."""
    if isinstance(text, SafeString):
        return text
    escaped = _LONG_WORD.sub(lambda word: breakable(mark_safe(word[0])), str(conditional_escape(text)))
    return mark_safe(_QUOTED.sub(r"<code>\1</code>", escaped))


@register.filter
def breakable(address: str) -> SafeString:
    """Escape an address and let it break between its names, but not inside a name."""
    return mark_safe(_PART_ENDS.sub("<wbr>", str(conditional_escape(address))))


@register.filter
def as_link(address_link: AddressLink) -> SafeString:
    """An address in a sentence. This is no template, because a template ends with a line break and a comma may follow."""
    if address_link.url:
        return format_html('<a class="mono" href="{}">{}</a>', address_link.url, format_sentence(str(address_link)))
    return format_html('<span class="mono">{}</span>', format_sentence(str(address_link)))


@register.filter
def number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


@register.filter
def pluralized(value: int, words: str) -> str:
    """`3 entities`; words: `entity,entities`."""
    one, many = words.split(",")
    return f"{value:,} {one if value == 1 else many}"


@register.filter
def capped_count(value: int, most: int) -> str:
    """Return a count that stops at `most` as text, such as `over 1,000`."""
    return f"over {most:,}" if value > most else f"{value:,}"


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """Return the time since `at` as text, with the exact time on hover."""
    if at is None:
        return ""
    exactly = f"{at:%d %B %Y, %H:%M:%S} UTC"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), exactly, _ago(at))


def _ago(at: datetime) -> str:
    figure = (timezone.now() - at).total_seconds()
    if figure < 5:
        return "just now"
    for size, unit in _STEPS:
        if figure < size:
            return f"{int(figure)} {unit}{'' if int(figure) == 1 else 's'} ago"
        figure /= size
    return "long ago"


@register.filter
def duration(seconds: float | None) -> str:
    """Return a duration as text, such as `42 s` or `3 min 5 s`."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:,} min {rest} s" if minutes else f"{rest} s"


@register.filter
def textarea_text(value: str) -> str:
    """Return the value with a line break in front, which browsers ignore at the start of a textarea.

    Without it, they would ignore a line break at the start of the value. Put the filter directly after the opening tag.
    """
    return f"\n{value or ''}"
