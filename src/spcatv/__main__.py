"""``python -m spcatv`` is the command line `spca-tv`."""

import sys

from spcatv.cli import main

if __name__ == "__main__":
    sys.exit(main())
