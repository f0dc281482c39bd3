r"""Train a tokenizer on texts of Parquet, or extend one for a domain.

For example:
  pagefeed tokenizer train web/ --column text --vocab-size 32000 --output tokenizer.json
  pagefeed tokenizer extend tokenizer.json law/ --column text --new-tokens 2000 \
      --output law.json
"""

__all__ = ["VERBS"]

VERBS = ("train", "extend")
