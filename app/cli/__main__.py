"""`python -m app.cli`: the command line without its installed script."""

from app.cli import main

main()
