//! Both engines on small tokenizers: the same ids, and who is used when.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use pagefeed_core::error::{Kind, Result};
use pagefeed_core::text::{Encode, encode_batch};
use pagefeed_tokenizer::{Engine, Tokenizer};
use serde_json::{Value, json};

/// A byte-level BPE of all bytes and a few merges.
fn byte_level(split: Option<&str>) -> Value {
    let printable = (33..127).chain(161..173).chain(174..256);
    let printable: Vec<u32> = printable.collect();
    let others = (0..256u32).filter(|byte| !printable.contains(byte));
    let letters = printable.iter().copied();
    let letters: Vec<char> = letters
        .chain(others.enumerate().map(|(number, _)| 256 + number as u32))
        .filter_map(char::from_u32)
        .collect();
    let merges = [
        ("t", "h"),
        ("th", "e"),
        ("\u{120}", "the"),
        ("a", "a"),
        ("aa", "aa"),
    ];
    let merges = merges.map(|(one, other)| [one, other]);
    let mut vocab = serde_json::Map::new();
    for token in letters.iter().map(char::to_string) {
        vocab.insert(token, json!(vocab.len()));
    }
    for merge in merges {
        vocab.insert(merge.concat(), json!(vocab.len()));
    }
    let level = |use_regex: bool| {
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
               "use_regex": use_regex})
    };
    let pre_tokenizer = match split {
        None => level(true),
        Some(pattern) => json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
             "invert": false}, level(false)]}),
    };
    json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 2,
        "strategy": "LongestFirst", "stride": 0}, "padding": null,
        "added_tokens": [{"id": 261, "content": "<|end|>", "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": pre_tokenizer, "post_processor": null,
        "decoder": level(true),
        "model": {"type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null,
            "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": vocab, "merges": merges},
    })
}

const PATTERN: &str = r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

fn ids(tokenizer: &Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = Vec::new();
    tokenizer.encode_into(text, &mut ids).unwrap();
    ids
}

const PARTS: [&str; 24] = [
    "a", "Z", "x\u{301}", "the", "AB", "é", "ß", "\u{fb01}", "漢字", "한", "12", "²", "'s", "’s",
    ".", "_", "👍🏽", "\u{200b}", " ", "  ", "\t", "\r\n", "\n\n", "\u{3000}",
];

/// Parts and tokens by chance: the same text for each number.
fn mixed(number: u64, added: &[&str]) -> String {
    let parts: Vec<&str> = PARTS.iter().chain(added).copied().collect();
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let drawn = (0..1 + draw(40)).collect::<Vec<_>>().into_iter();
    drawn.map(|_| parts[draw(parts.len())]).collect()
}

fn trials(added: Vec<String>) -> Result<Vec<String>> {
    let added: Vec<&str> = added.iter().map(String::as_str).collect();
    Ok((0..400).map(|number| mixed(number, &added)).collect())
}

#[test]
fn engines_agree_on_texts_by_chance() {
    for split in [None, Some(PATTERN)] {
        let json = byte_level(split).to_string();
        for as_text in [false, true] {
            let fast = Tokenizer::new(&json, as_text, Some(&trials)).unwrap();
            let exact = Tokenizer::new(&json, as_text, None).unwrap();
            assert_eq!(fast.engine().0, Engine::Fast, "{}", fast.engine().1);
            assert_eq!(exact.engine().0, Engine::Exact);
            for number in 1000..1300 {
                let text = mixed(number, &["<|end|>", "the", " the"]);
                assert_eq!(ids(&fast, &text), ids(&exact, &text), "{text:?}");
            }
            // A document is as long as it is, even if the file asks for truncation.
            assert_eq!(ids(&fast, "the the the the").len(), 4);
            let is_token = ids(&fast, "<|end|>") == [261];
            assert_eq!(is_token, !as_text);
        }
    }
}

#[test]
fn what_the_fast_engine_cannot_do_is_left_to_the_other() {
    let mut json = byte_level(None);
    json["added_tokens"][0]["single_word"] = json!(true);
    let tokenizer = Tokenizer::new(&json.to_string(), false, Some(&trials)).unwrap();
    let (engine, why) = tokenizer.engine();
    assert_eq!(engine, Engine::Exact);
    assert!(why.contains("matches whole words only"), "{why}");
    let mut json = byte_level(None);
    json["normalizer"] = json!({"type": "NFKC"});
    let tokenizer = Tokenizer::new(&json.to_string(), false, Some(&trials)).unwrap();
    assert_eq!(tokenizer.engine().0, Engine::Exact);
    assert_eq!(ids(&tokenizer, "\u{fb01}"), ids(&tokenizer, "fi"));
}

#[test]
fn what_is_no_tokenizer_is_refused() {
    for text in ["", "{}", "{\"model\": {}}", "[1, 2]"] {
        let error = Tokenizer::new(text, false, Some(&trials)).err().unwrap();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
}

#[test]
fn a_pattern_that_takes_too_long_is_named_with_the_text() {
    let json = byte_level(Some(r"(a+)+$")).to_string();
    let tokenizer = Tokenizer::new(&json, false, None).unwrap();
    let text = format!("{}!", "a".repeat(40));
    let error = tokenizer.encode_into(&text, &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    for part in ["(a+)+$", "aaaa", "41 bytes", "retry"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn batches_are_single_texts_in_order() {
    let json = byte_level(Some(PATTERN)).to_string();
    let tokenizer = Tokenizer::new(&json, false, Some(&trials)).unwrap();
    let texts: Vec<String> = (0..400)
        .map(|number| mixed(number, &[]).repeat(1 + number as usize % 40))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected: Vec<Vec<u32>> = texts.iter().map(|text| ids(&tokenizer, text)).collect();
    for num_threads in [1, 4] {
        let found = encode_batch(&tokenizer, &texts, num_threads).unwrap();
        assert_eq!(found.ids, expected.concat());
        let counts = expected.iter().map(|ids| ids.len() as u32);
        assert_eq!(found.counts, counts.collect::<Vec<_>>());
    }
    assert!(encode_batch(&tokenizer, &[], 4).unwrap().ids.is_empty());
}

#[test]
fn threads_share_a_tokenizer() {
    let json = byte_level(Some(PATTERN)).to_string();
    let tokenizer = Arc::new(Tokenizer::new(&json, false, Some(&trials)).unwrap());
    let exact = Tokenizer::new(&json, false, None).unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let (tokenizer, exact) = (Arc::clone(&tokenizer), &exact);
            scope.spawn(move || {
                for number in first * 100..first * 100 + 100 {
                    let text = mixed(number, &[]);
                    assert_eq!(ids(&tokenizer, &text), ids(exact, &text));
                }
            });
        }
    });
}

#[test]
fn long_texts_need_no_threads_of_their_own() {
    let json = byte_level(Some(PATTERN)).to_string();
    let tokenizer = Tokenizer::new(&json, false, Some(&trials)).unwrap();
    let text = "the quick brown fox\n".repeat(1 << 15);
    let number = ids(&tokenizer, &text).len();
    assert!(number > 1 << 15);
    #[cfg(target_os = "linux")]
    for entry in std::fs::read_dir("/proc/self/task").unwrap() {
        let name = std::fs::read_to_string(entry.unwrap().path().join("comm"));
        assert!(!name.unwrap_or_default().starts_with("fastokens"));
    }
}
