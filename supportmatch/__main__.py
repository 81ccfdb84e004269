"""`python -m supportmatch`."""

from supportmatch.cli import main

main()
