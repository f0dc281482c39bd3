"""Small tokenizers of every kind, trained here on a few sentences."""

import io
from collections.abc import Iterator
from functools import cache
from typing import Any

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

from pagefeed.tokenizer.ranks import ENCODINGS

TEXTS = [
    "The quick brown fox jumps over the lazy dog; it's 2024, they'll run 1234 miles.",
    "def main(argv):\n    return [x ** 2 for x in range(10)]  # squares\n\n",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. ¿Qué tal? Ça va!",
    "Съешь же ещё этих мягких французских булок, да чаю. 漢字 かな カナ 한국어 你好",
    "مرحبا بالعالم नमस्ते दुनिया สวัสดี 👩‍💻👍🏽 🇩🇪 ½ ² Ⅷ ٣ e\u0301 \u00a0\u3000\u200b",
    "camelCaseXMLHttpRequest SCREAMING_SNAKE iPhone don't DON'T we're WE'RE\r\n\t\n",
] * 4
"""What they are trained on, and a first thing to encode."""

LLAMA3 = ENCODINGS["cl100k_base"].pattern
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _trained(tokenizer: Tokenizer, trainer: Any) -> str:
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer.to_str()


def _byte_level(pattern: str | None, *, nfc: bool = False) -> str:
    made = Tokenizer(models.BPE(ignore_merges=pattern is not None))
    if nfc:
        made.normalizer = normalizers.NFC()
    split: Any = pre_tokenizers.ByteLevel(
        add_prefix_space=False, use_regex=pattern is None
    )
    if pattern is not None:
        by = pre_tokenizers.Split(Regex(pattern), "isolated")
        split = pre_tokenizers.Sequence([by, split])
    made.pre_tokenizer = split
    made.decoder = decoders.ByteLevel()
    return _trained(
        made,
        trainers.BpeTrainer(
            vocab_size=800,
            special_tokens=["<|endoftext|>", "<|im_start|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )


def _metaspace_bpe() -> str:
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=names, show_progress=False
    )
    return _trained(made, trainer)


def _word_piece() -> str:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    names = ["[UNK]", "[CLS]", "[SEP]"]
    return _trained(
        made,
        trainers.WordPieceTrainer(
            vocab_size=400, special_tokens=names, show_progress=False
        ),
    )


def _unigram() -> str:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    names = ["<unk>", "<s>", "</s>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=300, special_tokens=names, unk_token="<unk>", show_progress=False
    )
    return _trained(made, trainer)


NANO = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
"""A pattern that the fast engine has no scanner for."""

MADE = {
    "gpt2": lambda: _byte_level(None),
    "llama3": lambda: _byte_level(LLAMA3),
    "qwen": lambda: _byte_level(QWEN, nfc=True),
    "o200k": lambda: _byte_level(ENCODINGS["o200k_base"].pattern),
    "nano": lambda: _byte_level(NANO),
    "gpt2 split": lambda: _byte_level(ENCODINGS["gpt2"].pattern),
    "llama2": _metaspace_bpe,
    "wordpiece": _word_piece,
    "unigram": _unigram,
}
"""Makers by their names."""

FAST = ("gpt2", "llama3", "qwen", "o200k", "nano", "gpt2 split", "llama2")
"""Those that the fast engine takes, and gives the same for."""


@cache
def tokenizer_json(name: str) -> str:
    """The `tokenizer.json` of one of them."""
    return MADE[name]()


@cache
def ranks() -> dict[bytes, int]:
    """Ranks as tiktoken has them: of the bytes, then of merges in their order."""
    library = Tokenizer.from_str(tokenizer_json("gpt2"))
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    letters |= {chr(256 + number): byte for number, byte in enumerate(others)}
    special = {"<|endoftext|>", "<|im_start|>"}
    vocab = library.get_vocab()
    names = sorted(vocab.keys() - special, key=lambda name: vocab[name])
    tokens = [bytes(letters[letter] for letter in name) for name in names]
    tokens.sort(key=lambda token: len(token) > 1)
    return {token: rank for rank, token in enumerate(tokens)}


@cache
def sentence_pieces(kind: str) -> bytes:
    """A model of SentencePiece: of kind `unigram` or `bpe`."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=model,
        vocab_size=420,
        model_type=kind,
        byte_fallback=True,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return model.getvalue()


def hard_texts(count: int = 200, seed: int = 0) -> Iterator[str]:
    """Texts of any characters, many of those that rules of splitting look at."""
    import random

    chance = random.Random(seed)
    some = [*"".join(TEXTS), " ", "  ", "\n", "\r\n", "'", "<|endoftext|>", "</s>"]
    for _ in range(count):
        parts = []
        for _ in range(chance.randrange(1, 60)):
            kind = chance.randrange(10)
            if kind < 7:
                parts.append(chance.choice(some))
            elif kind < 9:
                point = chance.randrange(0x11_0000 - 0x800)
                parts.append(chr(point + 0x800 * (point >= 0xD800)))
            else:
                parts.append(chance.choice(some) * chance.randrange(1, 40))
        yield "".join(parts)
