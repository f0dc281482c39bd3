"""``python -m pagefeed`` is the same as ``pagefeed``."""

import sys

from pagefeed.cli import main

if __name__ == "__main__":
    sys.exit(main())
