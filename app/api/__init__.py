"""The wire: HTTP and JSON in, commands to the registry, answers and problems out."""
