"""Tokenizers give the ids of the library they come from, and say what they are."""

import json
import pickle
import resource

import numpy as np
import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken_ext import openai_public  # type: ignore[import-untyped]

import pagefeed as pf
from made.tokenizers_made import (
    FAST,
    MADE,
    TEXTS,
    hard_texts,
    ranks,
    sentence_pieces,
    tokenizer_json,
)
from pagefeed.errors import InvalidArgumentError, MissingFileError, TokenRangeError
from pagefeed.tokenizer.ranks import ENCODINGS
from scaled import scaled

sentencepiece = pytest.importorskip("sentencepiece")

made: dict[tuple, tuple[pf.Tokenizer, tokenizers.Tokenizer]] = {}


def ours(name, **settings):
    key = (name, *sorted(settings.items()))
    if key not in made:
        library = tokenizers.Tokenizer.from_str(tokenizer_json(name))
        made[key] = (pf.Tokenizer(library, **settings), library)
    return made[key]


def assert_same(tokenizer, reference, texts):
    for text, ids in zip(texts, tokenizer.encode_batch(texts), strict=True):
        assert ids.dtype == np.uint32
        assert ids.tolist() == list(reference(text)), repr(text)


@pytest.mark.parametrize("name", MADE)
def test_ids_are_those_of_the_library(name):
    tokenizer, library = ours(name)
    texts = ["", *TEXTS, *hard_texts()]
    assert_same(
        tokenizer, lambda t: library.encode(t, add_special_tokens=False).ids, texts
    )
    expected = "fastokens" if name in FAST else "tokenizers"
    assert tokenizer.engine == expected, tokenizer.engine_reason


@pytest.mark.parametrize("name", MADE)
@given(text=st.text(max_size=300))
@settings(max_examples=scaled(60), deadline=None)
def test_ids_of_any_text(name, text):
    tokenizer, library = ours(name)
    ids = tokenizer.encode(text).tolist()
    assert ids == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("name", MADE)
def test_special_tokens_as_text(name):
    tokenizer, library = ours(name, special_tokens="as_text")
    library = tokenizers.Tokenizer.from_str(library.to_str())
    library.encode_special_tokens = True
    texts = [f"a{token} b {token}" for token in tokenizer.special_ids] + ["<|im"]
    assert_same(
        tokenizer, lambda t: library.encode(t, add_special_tokens=False).ids, texts
    )


def test_texts_are_neither_cut_nor_padded():
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    plain = library.encode(TEXTS[0]).ids
    library.enable_truncation(4)
    library.enable_padding(length=64)
    assert pf.Tokenizer(library).encode(TEXTS[0]).tolist() == plain


def test_words_of_added_tokens_are_left_to_the_library():
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    library.add_tokens([tokenizers.AddedToken("fox", single_word=True)])
    tokenizer = pf.Tokenizer(library)
    assert tokenizer.engine == "tokenizers"
    assert '"fox" matches whole words only' in tokenizer.engine_reason
    texts = ["foxes fox", "fox", "afox fox."]
    assert_same(tokenizer, lambda t: library.encode(t).ids, texts)


@pytest.mark.parametrize("name", ENCODINGS)
def test_ids_are_those_of_tiktoken(name, tmp_path):
    import base64

    specials = {"<|endoftext|>": len(ranks()) + 3, "<|end|>": len(ranks()) + 9}
    reference = tiktoken.Encoding(
        name,
        pat_str=ENCODINGS[name].pattern,
        mergeable_ranks=ranks(),
        special_tokens=specials,
    )
    lines = (f"{base64.b64encode(t).decode()} {r}" for t, r in ranks().items())
    path = tmp_path / "made.tiktoken"
    path.write_text("\n".join(lines))
    of_file = pf.Tokenizer(path, pattern=name, special_ids=specials)
    of_object = pf.Tokenizer(reference)
    assert of_file.fingerprint == of_object.fingerprint
    assert of_file.engine == "fastokens", of_file.engine_reason
    assert of_file.vocab_size == reference.n_vocab
    assert of_file.eos == reference.eot_token
    texts = ["", *TEXTS, *hard_texts(400)]
    assert_same(of_file, reference.encode_ordinary, texts)
    assert of_file.decode(of_file.encode(TEXTS[3])) == TEXTS[3]
    as_token = pf.Tokenizer(
        path, pattern=name, special_ids=specials, special_tokens="as_token"
    )
    assert_same(as_token, lambda t: reference.encode(t, allowed_special="all"), texts)


CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
    r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
"""As tiktoken 0.14 has it."""


@pytest.mark.parametrize(
    "pattern",
    [
        CL100K,
        openai_public.r50k_pat_str,
        r"\p{N}{1,3}+|(?:ab|\p{L}){2,3}+|\s++$|^a|.|\s",
    ],
)
def test_encodings_made_as_tiktoken_says(pattern):
    """Under a name of one's own, with quantifiers that give nothing back."""
    specials = {"<|im_start|>": len(ranks()) + 3, "<|im_end|>": len(ranks()) + 4}
    reference = tiktoken.Encoding(
        "cl100k_im",
        pat_str=pattern,
        mergeable_ranks=ranks(),
        special_tokens=specials,
    )
    tokenizer = pf.Tokenizer(reference)
    assert tokenizer.engine == "fastokens", tokenizer.engine_reason
    texts = ["", "a\n\n  \nb  \n", "x  \n", "12345 678  \n\n", "  "]
    assert_same(tokenizer, reference.encode_ordinary, [*texts, *hard_texts(400)])


def test_ranks_with_a_token_without_bytes(tmp_path):
    """As Whisper's multilingual.tiktoken ends."""
    import base64

    lines = [f"{base64.b64encode(t).decode()} {r}" for t, r in ranks().items()]
    path = tmp_path / "multilingual.tiktoken"
    path.write_text("\n".join([*lines, f"= {len(ranks())}\n"]))
    tokenizer = pf.Tokenizer(path, pattern="gpt2", special_ids={"<|end|>": 999})
    reference = tiktoken.Encoding(
        "multilingual",
        pat_str=ENCODINGS["gpt2"].pattern,
        mergeable_ranks={**ranks(), b"": len(ranks())},
        special_tokens={"<|end|>": 999},
    )
    assert_same(tokenizer, reference.encode_ordinary, ["", *TEXTS, *hard_texts(99)])
    assert tokenizer.vocab_size == 1000
    assert tokenizer.decode([len(ranks())]) == ""


@pytest.mark.parametrize("number", [1 << 24, 400_000_000, 1 << 31, 1 << 40])
def test_ids_are_bounded_before_memory_is_taken(number, tmp_path):
    made = json.loads(tokenizer_json("gpt2"))
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    token = {"id": number, "content": "<x>", "special": True, **flags}
    path = tmp_path / "tokenizer.json"
    for changed in (
        {**made, "added_tokens": [token]},
        {**made, "model": {**made["model"], "vocab": {"<x>": number}}},
    ):
        path.write_text(json.dumps(changed))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(
            pf.errors.LimitExceededError, match=f"this one has {number}"
        ):
            pf.Tokenizer(path)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + (100 << 10)


@pytest.mark.parametrize("part", ["decoder", "model", "added_tokens", "normalizer"])
@pytest.mark.parametrize("value", [float("nan"), 5, {"type": "?"}])
def test_parts_that_are_none_are_refused(part, value, tmp_path):
    made = json.loads(tokenizer_json("gpt2"))
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**made, part: value}))
    with pytest.raises(InvalidArgumentError, match=r"not a tokenizer\.json"):
        pf.Tokenizer(path)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_ids_are_those_of_sentencepiece(kind, tmp_path):
    path = tmp_path / "pieces.model"
    path.write_bytes(sentence_pieces(kind))
    reference = sentencepiece.SentencePieceProcessor(model_file=str(path))
    tokenizer = pf.Tokenizer(path)
    assert_same(tokenizer, reference.encode, ["", *TEXTS, *hard_texts(50)])
    assert (tokenizer.bos, tokenizer.eos) == (reference.bos_id(), reference.eos_id())
    assert tokenizer.vocab_size == reference.vocab_size()
    assert tokenizer.decode(tokenizer.encode(TEXTS[0])) == reference.decode(
        reference.encode(TEXTS[0])
    )
    assert pf.Tokenizer(reference).fingerprint == tokenizer.fingerprint


def letters(text):
    return [ord(letter) for letter in text]


def test_a_function_is_a_tokenizer():
    tokenizer = pf.Tokenizer(letters, vocab_size=0x11_0000, eos=3, name="letters")
    assert_same(tokenizer, letters, ["", "abc", "漢字"])
    assert (tokenizer.eos, tokenizer.bos, tokenizer.engine) == (3, None, "python")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.fingerprint == tokenizer.fingerprint
    other = pf.Tokenizer(lambda text: [1] * len(text), vocab_size=5, name="letters")
    assert other.fingerprint != tokenizer.fingerprint
    with pytest.raises(InvalidArgumentError, match="give vocab_size"):
        pf.Tokenizer(letters)
    with pytest.raises(InvalidArgumentError, match="only encodes"):
        tokenizer.decode([1])


def failing(text):
    raise LookupError(f"no {text}")


@pytest.mark.parametrize(
    ("function", "words"),
    [(failing, "no abc"), (lambda _: [0.5], "whole numbers"), (lambda _: [-1], "-1")],
)
def test_a_function_that_fails_is_named(function, words):
    tokenizer = pf.Tokenizer(function, vocab_size=9, name="bad")
    with pytest.raises(InvalidArgumentError, match=words):
        tokenizer.encode("abc")


@pytest.mark.parametrize("name", ["gpt2", "llama2", "unigram"])
def test_round_trips(name):
    tokenizer, library = ours(name)
    for text in TEXTS[:3]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == library.decode(
            ids.tolist(), skip_special_tokens=False
        )
    with pytest.raises(TokenRangeError, match="is not a token id"):
        tokenizer.decode([tokenizer.vocab_size])


def test_what_is_known_of_it(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json("gpt2"))
    config = {"eos_token": "<|im_start|>", "bos_token": {"content": "<|endoftext|>"}}
    tokenizer = pf.Tokenizer(path)
    assert (tokenizer.eos, tokenizer.bos) == (0, None)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = pf.Tokenizer(path)
    assert (tokenizer.eos, tokenizer.bos) == (1, 0)
    assert tokenizer.special_ids == {"<|endoftext|>": 0, "<|im_start|>": 1}
    vocab = tokenizers.Tokenizer.from_file(str(path)).get_vocab_size()
    assert tokenizer.vocab_size == vocab
    assert pf.Tokenizer(path, eos="a").eos == tokenizer.encode("a")[0]
    assert "tokenizer.json" in repr(tokenizer)
    assert pickle.loads(pickle.dumps(tokenizer)).fingerprint == tokenizer.fingerprint


def test_half_of_a_surrogate_pair_is_no_token(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(tokenizer_json("gpt2"))
    (tmp_path / "tokenizer_config.json").write_text(r'{"bos_token": "\ud800"}')
    tokenizer = pf.Tokenizer(path)
    assert (tokenizer.eos, tokenizer.bos) == (0, None)
    with pytest.raises(InvalidArgumentError, match="is not a token of tokenizer"):
        pf.Tokenizer(path, eos="\ud800")


@pytest.mark.parametrize("name", MADE)
def test_fingerprints_are_of_what_decides_on_ids(name):
    tokenizer, library = ours(name)
    same = tokenizers.Tokenizer.from_str(library.to_str(pretty=True))
    same.enable_padding(length=8)
    same.decoder = tokenizers.decoders.Fuse()
    assert pf.Tokenizer(same).fingerprint == tokenizer.fingerprint
    other = tokenizers.Tokenizer.from_str(library.to_str())
    other.add_tokens(["anything"])
    assert pf.Tokenizer(other).fingerprint != tokenizer.fingerprint
    plain = ours(name, special_tokens="as_text")[0]
    assert plain.fingerprint != tokenizer.fingerprint


GOLDEN = "d6f8281c90ba3e485d7624ded1818cae"


def test_a_fingerprint_stays_the_same():
    vocab, merges = {"a": 0, "b": 1, "ab": 2}, [("a", "b")]
    library = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, merges))
    found = pf.Tokenizer(library).fingerprint
    assert found == GOLDEN, "counts of tokens that users have would be lost"


def test_what_is_no_text_is_refused():
    tokenizer, _ = ours("gpt2")
    with pytest.raises(InvalidArgumentError, match="text 1 is not Unicode text"):
        tokenizer.encode_batch(["fine", "\ud800"])
    with pytest.raises(InvalidArgumentError, match="text 0 is not Unicode text"):
        tokenizer.encode("a\udfff")
    with pytest.raises(InvalidArgumentError, match="text 0 is bytes"):
        tokenizer.encode_batch([b"abc"])
    with pytest.raises(InvalidArgumentError, match="a list of texts"):
        tokenizer.encode_batch("abc")
    assert tokenizer.encode_batch([]) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"eos": "nowhere"}, "'nowhere' is not a token"),
        ({"special_tokens": "dropped"}, "choose one of as_token, as_text"),
        ({"pattern": "gpt2"}, "go with tiktoken's ranks alone"),
        ({"vocab_size": 0}, "vocab_size=0"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    library = tokenizers.Tokenizer.from_str(tokenizer_json("gpt2"))
    with pytest.raises(InvalidArgumentError, match=words):
        pf.Tokenizer(library, **settings)


def test_wrong_sources_are_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="3 is not a tokenizer"):
        pf.Tokenizer(3)
    with pytest.raises(MissingFileError):
        pf.Tokenizer(tmp_path / "absent.json")
    with pytest.raises(InvalidArgumentError, match="the file with its ranks"):
        pf.Tokenizer("cl100k_base")
    for text, words in [
        ('{"model": 3}', "not a tokenizer.json that can be read"),
        ("nothing of all this", "nor a SentencePiece model: give a file of one of"),
        ("YQ== 0\n", "say what texts are split by"),
    ]:
        path = tmp_path / "source"
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=words):
            pf.Tokenizer(path)
    path.write_text("YQ== 0\nYQ 1\n")
    with pytest.raises(InvalidArgumentError, match="line 2"):
        pf.Tokenizer(path, pattern="gpt2")
    path.write_text("YQ== 0\n")
    with pytest.raises(InvalidArgumentError, match="byte 0 has none"):
        pf.Tokenizer(path, pattern="gpt2")


def test_many_texts_on_threads():
    tokenizer, library = ours("llama3")
    texts = [*hard_texts(50), "x" * 300_000, *TEXTS * 100]
    expected = [library.encode(text, add_special_tokens=False).ids for text in texts]
    for num_threads in (1, 3, None):
        found = tokenizer.encode_batch(texts, num_threads=num_threads)
        assert [ids.tolist() for ids in found] == expected


def test_a_folder_is_its_tokenizer_and_a_file_that_is_not_there_is_told(tmp_path):
    (tmp_path / "tokenizer.json").write_text(tokenizer_json("gpt2"))
    assert pf.Tokenizer(tmp_path).name == "tokenizer.json"
    with pytest.raises(MissingFileError, match=r"tokeniser\.json does not exist: give"):
        pf.Tokenizer(tmp_path / "tokeniser.json")


@pytest.mark.parametrize("attribute", ["enc", "tokenizer", "processor"])
def test_wrappers_of_training_scripts(attribute):
    """Classes that keep a library's object, and may be called with a text."""
    name = next(iter(MADE))
    library = tokenizers.Tokenizer.from_str(tokenizer_json(name))

    class Wrapper:
        def __call__(self, _: str) -> list[int]:
            raise AssertionError("the inner tokenizer is faster, and travels by pickle")

    wrapper = Wrapper()
    setattr(wrapper, attribute, library)
    found, plain = pf.Tokenizer(wrapper), pf.Tokenizer(library)
    assert found.fingerprint == plain.fingerprint
    assert found.encode(TEXTS[0]).tolist() == plain.encode(TEXTS[0]).tolist()


def test_other_attributes_are_no_tokenizer():
    class Wrapper:
        tokenizer = "a name"

    with pytest.raises(InvalidArgumentError, match="is not a tokenizer"):
        pf.Tokenizer(Wrapper())
