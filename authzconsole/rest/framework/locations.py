"""The URLs of REST resources. Addresses and names are percent-encoded, including slashes."""

from urllib.parse import quote

from django.http import Http404

from entities.address import Address, AddressError, parse_address

ROOT = "/api/v1"


def entity_location(address: Address) -> str:
    return f"{ROOT}/entities/{quote(str(address), safe=':@')}"


def user_location(name: str) -> str:
    return f"{ROOT}/users/{quote(name, safe='@')}"


def group_location(name: str) -> str:
    return f"{ROOT}/groups/{quote(name, safe='@')}"


def run_location(number: int) -> str:
    return f"{ROOT}/runs/{number}"


def plan_location(number: int) -> str:
    return f"{ROOT}/plans/{number}"


def evidence_location(number: int) -> str:
    return f"{ROOT}/evidence/{number}"


def break_glass_location(number: int) -> str:
    return f"{ROOT}/break-glass-uses/{number}"


def webhook_location(number: int) -> str:
    return f"{ROOT}/webhooks/{number}"


def access_request_location(number: int) -> str:
    return f"{ROOT}/access-requests/{number}"


def address_or_404(text: str) -> Address:
    try:
        return parse_address(text)
    except AddressError:
        raise Http404 from None
