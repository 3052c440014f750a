"""``python -m rayhull``: the command line."""

import sys

from rayhull.cli import main

if __name__ == "__main__":
    sys.exit(main())
