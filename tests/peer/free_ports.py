"""Ports of this machine for the peers of a test.

They are of blocks of a hundred ports; a block is a process's for as long as it holds the first of
them, and free_ports.h has its blocks by the same rule. So a port that is told but not bound yet, or
not bound any more, is not another test's; nor a swarm's, whose ports are above, as are those of
outgoing connections.
"""

import random
import socket

BLOCK, BLOCKS = 100, range(10000, 20000, 100)
HELD = []  # the first port of each block that is ours


def hold(port):
    """A socket that has the port until it is closed; None: somebody else has it."""
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", port))
        return held
    except OSError:
        held.close()
        return None


def is_free(port):
    held = hold(port)
    if held:
        held.close()
    return held is not None


def pairs():
    for first in random.sample(BLOCKS, len(BLOCKS)):
        if block := hold(first):
            HELD.append(block)
            yield from (port for port in range(first + 2, first + BLOCK, 2)
                        if is_free(port) and is_free(port + 1))


PAIRS = pairs()


def free_port_pair():
    """A port whose successor is free too: the two lanes of a peer. No port is told twice."""
    for port in PAIRS:
        return port
    raise OSError("no two ports in a row are free between 10000 and 20000")
