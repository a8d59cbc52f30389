"""``python -m explorer``."""

import io
import sys

from explorer.cli import main

if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a sign shows its number instead of ending the program.
            stream.reconfigure(errors="backslashreplace")
    sys.exit(main())
