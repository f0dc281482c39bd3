"""How many examples properties try: `PAGEFEED_EXAMPLES`, of a hundred."""

import os

EXAMPLES = int(os.environ.get("PAGEFEED_EXAMPLES", "100"))


def scaled(number: int) -> int:
    """As many examples as a property tries where others try a hundred."""
    return max(number * EXAMPLES // 100, 2)
