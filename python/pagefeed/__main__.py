"""The command ``pagefeed``, also as ``python -m pagefeed``."""

import sys

__all__ = ["main"]


def main() -> int:
    """Run a verb and return its exit status; 130 after Ctrl-C."""
    try:
        from pagefeed.cli import main as run  # Takes a second, in which one may wait.

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("pagefeed: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
