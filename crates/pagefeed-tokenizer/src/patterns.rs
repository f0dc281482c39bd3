//! Patterns that mean the same to every engine of regular expressions.

use serde_json::Value;

/// White space of Oniguruma; other engines add U+180E, or leave out U+0085.
const WHITE_SPACE: &str = "\t\n\u{b}\u{c}\r \u{85}\u{a0}\u{1680}\u{2000}-\u{200a}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}";

/// A `tokenizer.json` whose patterns spell white space out; `None` if none names it.
pub fn spelled_out(json: &Value) -> Option<Value> {
    let mut json = json.clone();
    respell(json.get_mut("pre_tokenizer")?).then_some(json)
}

/// Rewrites the patterns in a part of the file; returns whether there were any.
fn respell(step: &mut Value) -> bool {
    let mut is_changed = false;
    if let Some(pattern) = step["pattern"]["Regex"].as_str()
        && let Some(respelled) = without_classes(pattern)
    {
        is_changed = respelled != pattern;
        step["pattern"]["Regex"] = Value::String(respelled);
    }
    let parts = step.get_mut("pretokenizers").and_then(Value::as_array_mut);
    for inner in parts.into_iter().flatten() {
        is_changed |= respell(inner);
    }
    is_changed
}

/// Returns the pattern without `\s` and `\S`; `None` where they cannot be expressed
/// otherwise.
fn without_classes(pattern: &str) -> Option<String> {
    let (mut respelled, mut depth) = (String::new(), 0usize);
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match (letters.next()?, depth) {
                ('s', 0) => respelled.push_str(&format!("[{WHITE_SPACE}]")),
                ('s', _) => respelled.push_str(WHITE_SPACE),
                ('S', 0) => respelled.push_str(&format!("[^{WHITE_SPACE}]")),
                ('S', _) => return None,
                (other, _) => respelled.extend([letter, other]),
            },
            '[' => {
                depth += 1;
                respelled.push(letter);
            }
            ']' => {
                depth = depth.saturating_sub(1);
                respelled.push(letter);
            }
            _ => respelled.push(letter),
        }
    }
    Some(respelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_spelled_out() {
        let s = WHITE_SPACE;
        let respelled = without_classes(r"\s+(?!\S)| ?[^\s\p{L}\]]+|\\s").unwrap_or_default();
        assert_eq!(
            respelled,
            format!(r"[{s}]+(?![^{s}])| ?[^{s}\p{{L}}\]]+|\\s")
        );
        assert_eq!(without_classes(r"[\S]"), None);
        assert_eq!(without_classes("\\"), None);
    }

    #[test]
    fn patterns_in_sequences_are_found() {
        let split = serde_json::json!({"type": "Split", "pattern": {"Regex": r"\s"}});
        let plain = serde_json::json!({"type": "Split", "pattern": {"String": r"\s"}});
        let parts = serde_json::json!({"pretokenizers": [plain.clone(), split]});
        let respelled = spelled_out(&serde_json::json!({"pre_tokenizer": parts}));
        let respelled = respelled.unwrap_or_default();
        let parts = &respelled["pre_tokenizer"]["pretokenizers"];
        assert_eq!(parts[0], plain);
        assert_eq!(parts[1]["pattern"]["Regex"], format!("[{WHITE_SPACE}]"));
        assert!(spelled_out(&serde_json::json!({"pre_tokenizer": plain})).is_none());
    }
}
