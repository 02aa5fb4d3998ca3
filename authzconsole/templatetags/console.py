"""Template tags and filters that format icons, numbers, times and text. None of them checks access."""

import re
from datetime import datetime
from functools import cache
from pathlib import Path

from django import template
from django.template.loader import render_to_string
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.dateformat import format as date_format
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from authzconsole.common.security_events.record import EventKind
from authzconsole.web.ask.answers import requirement_node, requirement_root
from authzconsole.web.effects.wording import tally_phrases
from authzconsole.web.journal.rows import action_label
from authzconsole.web.policies.page import row_url
from authzconsole.web.reports.charts.treemap_layout import PORTRAIT, TreemapTile, treemap
from authzconsole.web.shared.links import (
    AddressLink,
    address_link_to,
    address_url,
    principal_link,
    principal_url,
)
from authzconsole.web.shared.paging import url_with
from authzconsole.web.shared.privilege_cells import LETTERS
from authzconsole.web.shared.times import (
    abbreviation,
    earlier_days,
    ending_words,
    exact_time,
    moment_input,
    period_badge,
    period_words,
    reader_localtime,
    zone_name,
)
from entities.address import Address
from entities.models import Entity, State
from entities.vocabulary import Privilege, quantity
from grants.administrators import Strandings
from grants.models import Membership, RoleGroup
from grants.policies.explain import Attempt, Decision
from grants.policies.principals import group_text
from grants.validity import Validity

register = template.Library()
register.filter("group_text", group_text)
register.filter(action_label)
register.filter("policy_url", row_url)
register.filter(tally_phrases)
register.filter(exact_time)
register.filter(period_words)
register.simple_tag(zone_name)
register.simple_tag(earlier_days)
register.filter(moment_input)

# kinds that a deployment registers have no icon
_ICON_NAMES = set(
    re.findall(r'<symbol id="(\w+)"', (Path(__file__).parent.parent / "static" / "icons.svg").read_text())
)
_LEVEL_ICONS = {"success": "allowed", "error": "denied", "warning": "warning", "planned": "planned"}
_QUOTED = re.compile(r"`([^`\n]+)`")
# shorter words fit into the narrowest column
_LONG_WORD = re.compile(r"\S{28,}")
_WORD_ENDS = re.compile(r"(?<=[.:/_-])(?=[^.:/_\s\d-])")
_PART_ENDS = re.compile(r"(?<=[.:/])(?=[^.:/\s\d])")
_STEPS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"), (12, "month"), (1_000, "year"))


@register.simple_tag
def icon(name: str) -> SafeString:
    """Return an icon from icons.svg. It is only decoration, so screen readers skip it."""
    return _icon(name if name in _ICON_NAMES else "entity")


@cache
def _icon(symbol: str) -> SafeString:
    # a page has hundreds of icons, and each URL takes longer than the rest of the icon
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("icons.svg"),
        symbol,
    )


@register.simple_block_tag
def unless_empty(content: SafeString, start: str, end: str) -> SafeString:
    """Return the text between the tags inside of an element; nothing if there is only white space."""
    return SafeString(f"{start}{content.strip()}{end}" if content.strip() else "")


@register.simple_block_tag
def menu(content: SafeString, title: str = "More") -> SafeString:
    """Return a menu of the links and forms between the tags; nothing if there are none.

    The page head has one button, and a menu for everything else; destructive actions are always in the menu.
    """
    if not content.strip():
        return SafeString("")
    return render_to_string("shared/navigation/menu.html", {"content": content, "title": title})


@register.simple_block_tag
def more_filters(content: SafeString, id: str) -> SafeString:
    """Return the fields between the tags as a part of a filter form that opens below a button.

    `filters.js` shows each filter that is set as a chip. Without scripts, all fields are visible.
    """
    return render_to_string("shared/forms/more_filters.html", {"content": content, "id": id})


@register.simple_tag(name="address")
def address_tag(target, *, linked: bool = True) -> SafeString:
    """Show an entity, or an address as an Address or text, with a link unless it is not `linked`.

    This is not a template, because a page has hundreds of addresses.
    """
    address_link = address_link_to(target, is_linked=linked)
    tag = format_html('a href="{}"', address_link.url) if address_link.url else "span"
    return format_html(
        '\n<{} class="address{}">\n{}\n'
        '<span class="path">{}:<wbr><span class="parent-path">{}</span><wbr><b>{}</b></span>\n</{}>\n',
        tag,
        " deleted" if address_link.state == State.DELETED else "",
        icon(address_link.kind),
        address_link.kind,
        breakable(address_link.parent_path),
        breakable_name(address_link.last),
        tag[:1] if address_link.url else tag,
    )


@register.inclusion_tag("shared/display/principal.html", name="principal")
def principal_tag(subject, *, plain: bool | str = False) -> dict:
    """Show a user or group, or a principal as text such as `user:alice`, with a link unless it is `plain`."""
    return {"principal": principal_link(subject), "plain": plain}


@register.inclusion_tag("entities/grants/_stranding.html", name="stranding")
def stranding_tag(loss: Strandings, max_rows: int = 5, more_url: str = "") -> dict:
    """Show the first entities that lose their administrators. more_url: the page with all of them."""
    first = loss.entities[:max_rows]
    return {"stranding": loss, "rows": first, "more": loss.total - len(first), "more_url": more_url}


@register.inclusion_tag("shared/display/requirement_tree.html")
def requirement_tree(decision: Decision, *, linked: bool) -> dict:
    """Show the requirement of a decision with attempts."""
    return requirement_node(requirement_root(decision)) | {"linked": linked}


@register.inclusion_tag("shared/display/requirement_tree.html", name="requirement_node")
def requirement_node_tag(attempt: Attempt, *, linked: bool) -> dict:
    """Show a part of a requirement."""
    return requirement_node(attempt) | {"linked": linked}


@register.filter
def event_label(kind: str) -> str:
    return EventKind(kind).label if kind in EventKind else kind


@register.filter
def link_to(target: object, url_name: str = "entity") -> str:
    """Return the URL of a page about an entity or an address, such as `grant`."""
    return address_url(url_name, target)


@register.filter
def principal_page(principal: object, url_name: str = "person") -> str:
    """Return the URL of a page about a principal: a user, a group, or text such as `user:alice`."""
    return principal_url(url_name, principal_link(principal).address)


@register.simple_tag
def membership_url(row: Membership | RoleGroup, verb: str, page: str) -> str:
    """Return the URL of the form that adds or removes a member, and then returns to the page of a principal."""
    is_user = isinstance(row, Membership)
    names = (
        {"user": row.user.username, "group": row.group.name}
        if is_user
        else {"user": group_text(row.group.name), "group": row.role.name}
    )
    return reverse("membership", query={"verb": verb, **names, "page": page})


@register.simple_tag(takes_context=True, name="url_with")
def url_with_tag(context, **changes: object) -> str:
    """Return the URL of the page with other query parameters. `_` in a name stands for `-`."""
    return url_with(context.request, **{name.replace("_", "-"): value for name, value in changes.items()})


@register.simple_tag
def privilege_letters() -> list[tuple[str, Privilege]]:
    """Return (letter, privilege) for each privilege, in display order."""
    return [(LETTERS[privilege], privilege) for privilege in Privilege]


@register.filter
def portrait(tiles: list[TreemapTile]) -> list[TreemapTile]:
    """Return the same treemap in portrait format, for phones."""
    return treemap((tile.item for tile in tiles), PORTRAIT)


@register.filter
def level_icon(level: str) -> str:
    return _LEVEL_ICONS.get(level, "info")


@register.filter
def format_sentence(text: object) -> SafeString:
    """Escape a sentence, format text in backticks as code, and allow line breaks between the parts of long
    addresses.
    """
    if isinstance(text, SafeString):
        return text
    escaped = _LONG_WORD.sub(lambda word: breakable(mark_safe(word[0])), str(conditional_escape(text)))
    return mark_safe(_QUOTED.sub(r"<code>\1</code>", escaped))


@register.filter
def breakable(address: str) -> SafeString:
    """Escape an address and allow line breaks between its names, but not inside a name."""
    return mark_safe(_PART_ENDS.sub("<wbr>", str(conditional_escape(address))))


@register.filter
def breakable_name(name: str) -> SafeString:
    """Escape a name and allow line breaks between its words."""
    return mark_safe(_WORD_ENDS.sub("<wbr>", str(conditional_escape(name))))


@register.filter
def as_link(target: AddressLink | Entity | Address, is_linked: bool = True) -> SafeString:
    """Return an address in a sentence, as a link if it has a URL.

    This is not a template, because the output of a template ends with a line break, and a comma may follow
    the address.
    """
    address_link = address_link_to(target, is_linked=is_linked)
    if address_link.url:
        return format_html(
            '<a class="mono" href="{}">{}</a>', address_link.url, format_sentence(str(address_link))
        )
    return format_html('<span class="mono">{}</span>', format_sentence(str(address_link)))


@register.filter
def number(value: int | None) -> str:
    """Return a number as text, with a minus sign if it is negative."""
    return "" if value is None else f"{value:,}".replace("-", "\N{MINUS SIGN}")


@register.filter
def pluralized(value: int, forms: str) -> str:
    """Return a quantity such as `3 entities`. forms: singular and plural, such as `entity,entities`."""
    return quantity(value, *forms.split(","))


@register.filter
def capped_count(value: int, limit: int) -> str:
    """Return a count as text, such as `over 1,000` if it exceeds the limit."""
    return f"over {limit:,}" if value > limit else f"{value:,}"


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """Return the time since `at` as text, with the exact time on hover."""
    if at is None:
        return ""
    title = f"{reader_localtime(at):%d %B %Y, %H:%M:%S} {abbreviation(at)}"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.isoformat(), title, _ago(at))


@register.filter
def zoned(at: datetime | None, format_string: str) -> str:
    """Return a time in the time zone of the reader with its abbreviation. format_string: as for the filter
    `date`.
    """
    return f"{date_format(reader_localtime(at), format_string)} {abbreviation(at)}" if at else ""


@register.filter
def ending(end: datetime) -> str:
    """Return an end of access, such as `27 November 2026`, the last day, if it is the end of a day; otherwise with the time."""
    return ending_words(end)


@register.filter
def period(validity: Validity) -> SafeString | str:
    """Return the badge of a period; empty without limits."""
    badge = period_badge(validity)
    if badge is None:
        return ""
    return format_html(
        '<span class="period {}" title="{}">{}<span class="visually-hidden"> ({})</span></span>',
        badge.status,
        badge.title,
        badge.text,
        badge.title,
    )


def _ago(at: datetime) -> str:
    figure = (timezone.now() - at).total_seconds()
    if figure < 5:
        return "just now"
    amount = rough_duration(figure)
    return f"{amount} ago" if amount else "long ago"


@register.filter
def rough_duration(seconds: float) -> str:
    """Return a duration in its largest unit, such as `3 hours`; empty if it is longer than the units tell."""
    for size, unit in _STEPS:
        if seconds < size:
            return quantity(int(seconds), unit, f"{unit}s")
        seconds /= size
    return ""


@register.filter
def duration(seconds: float | None) -> str:
    """Return a duration as text, such as `42 s` or `3 min 5 s`."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:,} min {rest} s" if minutes else f"{rest} s"


@register.filter
def textarea_text(value: str) -> str:
    """Return the value after a line break. Browsers ignore one line break at the start of a textarea.

    Without it, they would ignore a line break at the start of the value. Use the filter directly after the
    opening tag.
    """
    return f"\n{value or ''}"
