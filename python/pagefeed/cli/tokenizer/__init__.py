r"""Train a tokenizer on texts of Parquet, extend one for a domain, or compare some.

For example:
  pagefeed tokenizer train web/ --column text --vocab-size 32000 --output tokenizer.json
  pagefeed tokenizer extend tokenizer.json law/ --column text --new-tokens 2000 \
      --output law.json
  pagefeed tokenizer compare tokenizer.json law.json --data law/ --column text
"""

__all__ = ["VERBS"]

VERBS = ("train", "extend", "compare")
