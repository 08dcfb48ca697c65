"""The durable memory of scenes: the port, the codec, and the journals behind `open_journal`."""
