"""Descriptors: how many connections fit into the files that the system lets the process have open."""

import resource

SPARE = 256
"""Open files that are no connections: the journal's, the libraries', what is read now and then."""


def room_for(connections: int) -> int:
    """Give how many of `connections` fit, after raising the limit of the process as far as that needs and it may.

    Beyond it the system would refuse the journal its files as well as a client its connection.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return connections
    return max(1, min(connections, soft - SPARE))
