"""``python -m rayhull``: the command line."""

import sys

from rayhull.cli import main

sys.exit(main())
