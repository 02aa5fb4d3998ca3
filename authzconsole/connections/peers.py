"""Refuse the addresses that no platform has, such as that of the metadata service of a cloud.

Platforms are in private networks, so other internal addresses are allowed.
"""

import ipaddress
import socket

from authzconsole.connections.platform import ConnectionFault

# of metadata services, besides link-local addresses
_METADATA = [
    ipaddress.ip_network(text)
    for text in ("192.0.0.192", "100.100.100.200", "168.63.129.16", "fd00:ec2::/32", "fd20:ce::254")
]
# the last four bytes of these can be an IPv4 address: mapped, compatible, translated, and of NAT64
_WITH_IPV4 = ipaddress.ip_network("::/8")


def check_host(host: str) -> None:
    """Raise ConnectionFault if the name has such an address now. A name without an address passes: its connection fails."""
    try:
        found = {str(row[4][0]) for row in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError):
        return
    for address in found:
        _check_address(host, address)


def check_peer(host: str, connected: socket.socket) -> None:
    """Raise ConnectionFault if the other end of a connection has such an address: the name may have another one by now."""
    _check_address(host, connected.getpeername()[0])


def _check_address(host: str, text: str) -> None:
    address = ipaddress.ip_address(text.partition("%")[0])
    forms = [address]
    if isinstance(address, ipaddress.IPv6Address):
        if address in _WITH_IPV4:
            forms.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.sixtofour:
            forms.append(address.sixtofour)
    if any(
        form.is_link_local
        or form.is_multicast
        or form.is_unspecified
        or any(form in network for network in _METADATA)
        for form in forms
    ):
        raise ConnectionFault(f"{host} is not the address of a platform: enter another one", field="url")
