"""Playing recorded engine traces through a running service: a client, which knows the wire and nothing behind it."""
