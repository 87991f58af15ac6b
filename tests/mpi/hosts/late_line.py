#!/usr/bin/env python3
"""Connects two interfaces by a line that delivers each frame some milliseconds late, in order.

    late_line.py INTERFACE INTERFACE MILLISECONDS
"""

import collections
import select
import socket
import sys
import time

ALL_PROTOCOLS = 3
SOL_PACKET = 263
# Each frame has a header, which says what the sender has left to its card: checksums, and segments of a large frame.
PACKET_VNET_HDR = 15
# Frames that this line itself sends are seen again with this type.
OUTGOING = 4
FRAME_BYTES = 1 << 17


def opened(interface):
    line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS))
    line.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    line.bind((interface, 0))
    line.setblocking(False)
    return line


def main():
    first, second, milliseconds = sys.argv[1:]
    ends = [opened(first), opened(second)]
    late = float(milliseconds) / 1e3
    under_way = collections.deque()
    while True:
        wait = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
        readable, _, _ = select.select(ends, [], [], wait)
        now = time.monotonic()
        for end in readable:
            to = ends[1] if end is ends[0] else ends[0]
            while True:
                try:
                    frame, about = end.recvfrom(FRAME_BYTES)
                except BlockingIOError:
                    break
                if about[2] != OUTGOING:
                    under_way.append((now + late, to, frame))
        while under_way and under_way[0][0] <= time.monotonic():
            _, to, frame = under_way.popleft()
            try:
                to.send(frame)
            except OSError:
                pass  # As on any line: whoever sent it sends it again.


main()
