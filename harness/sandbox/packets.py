"""Packets between referee and players.  The kernel vouches for each packet's sender."""

from __future__ import annotations

import socket
import struct

from harness.inside.protocol import MAX_MESSAGE

_CREDENTIALS = struct.Struct("3i")


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Our socket and theirs.  On ours, the kernel reports the sender of each packet."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def receive_signed(ours: socket.socket) -> tuple[bytes, int]:
    """A packet, and its sender's pid as numbered in our namespace; 0 at the end of the stream."""
    packet, ancillary, _, _ = ours.recvmsg(MAX_MESSAGE, socket.CMSG_SPACE(_CREDENTIALS.size))
    return packet, int(_CREDENTIALS.unpack(ancillary[0][2][: _CREDENTIALS.size])[0]) if ancillary else 0
