"""Packets between the referee's side and the players': each comes with the kernel's word on who sent it."""

from __future__ import annotations

import socket
import struct

from harness.inside.protocol import MAX_MESSAGE

_CREDENTIALS = struct.Struct("3i")


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Ours and theirs; with what arrives at ours, the kernel says who sent it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def receive_signed(ours: socket.socket) -> tuple[bytes, int]:
    """A packet, and the pid of its sender as our namespace numbers it; 0 at the end."""
    packet, ancillary, _, _ = ours.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(_CREDENTIALS.size))
    return packet, int(_CREDENTIALS.unpack(ancillary[0][2][: _CREDENTIALS.size])[0]) if ancillary else 0
