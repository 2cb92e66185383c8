"""Which endpoints may be given a transcript and a key (trust.md 2f, L4)."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from compactctl.errors import SettingsError

_METADATA_NAMES = ("metadata.google.internal", "metadata.goog", "metadata", "instance-data")
_METADATA_ADDRESSES = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "fd00:ec2::254", "192.0.0.192")))

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked address: its URL, its host as shown to the user, and whether it is on this machine."""

    url: str
    host: str
    loopback: bool

    @property
    def encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return self.url.startswith("https:")


def check_endpoint(url: str, allow_insecure: bool = False) -> Endpoint:
    """Check the address of an endpoint: https, or http on this machine; never a cloud's metadata service.

    Raises SettingsError, which says what is allowed. ``allow_insecure`` permits plain http to other hosts.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise SettingsError(f"{_shown(url)}: not a URL; an endpoint looks like https://host/v1") from None
    if any(c.isspace() or not c.isprintable() for c in url) or "\\" in url:
        raise SettingsError(f"{_shown(url)}: an endpoint holds no spaces, control characters or backslashes")
    if parts.scheme not in ("https", "http") or not host:
        raise SettingsError(f"{_shown(url)}: an endpoint begins with https:// (or http:// on this machine)")
    if parts.username is not None or parts.password is not None:
        raise SettingsError(f"{host}: an endpoint holds no user or password; keys come from the environment or a file")
    if parts.query or parts.fragment:
        raise SettingsError(f"{host}: an endpoint has no query and no fragment")
    if not host.isascii():
        raise SettingsError(f"{_shown(host)}: write an international host in its xn-- form, so that look-alikes show")
    address = _literal(host)
    if host.rstrip(".").lower() in _METADATA_NAMES or (address and forbidden(address)):
        raise SettingsError(f"{host}: link-local and metadata addresses are never an endpoint")
    loopback = host.lower() == "localhost" or bool(address and _unmapped(address).is_loopback)
    if parts.scheme == "http" and not loopback and not allow_insecure:
        raise SettingsError(f"{host}: plain http would show the transcript and the key to the network; use https")
    return Endpoint(url.rstrip("/"), f"{host}:{port}" if port else host, loopback)


def forbidden(address: Address) -> bool:
    """Whether an address is never to be connected to: link-local, metadata, multicast, unspecified."""
    plain = _unmapped(address)
    return plain.is_link_local or plain.is_multicast or plain.is_unspecified or plain in _METADATA_ADDRESSES


def _unmapped(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return address.ipv4_mapped
        if address in ipaddress.ip_network("64:ff9b::/96"):  # NAT64
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        pass
    try:
        # The forms that resolvers take for an address as well: 2852039166, 0xA9FEA9FE, 0251.0376.0251.0376.
        return ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return None


def _shown(text: str) -> str:
    # A password is taken off before the rest is shortened: a cut in front of the "@" would leave it standing.
    return ascii(text.rpartition("@")[2][:80])[1:-1]
