//! Texts of lines of JSON, as long as all is well with them.

use std::fmt;

use memchr::memchr_iter;
use serde::Deserializer as _;
use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Deserializer;

/// Texts of lines of JSON, one after another.
#[derive(Debug, Default)]
pub struct JsonTexts {
    /// All texts, in UTF-8.
    pub bytes: Vec<u8>,
    /// Start of each text, and the end of the last.
    pub offsets: Vec<i64>,
}

/// The text that every line has in the field `name`. `None` if something is odd: a line
/// is empty or no object, lacks the field or has it twice, or something else is there.
pub fn json_texts(block: &[u8], name: &str) -> Option<JsonTexts> {
    let block = simdutf8::basic::from_utf8(block).ok()?;
    let mut texts = JsonTexts {
        // No text is longer than its JSON.
        bytes: Vec::with_capacity(block.len()),
        offsets: vec![0],
    };
    let mut begin = 0;
    for end in memchr_iter(b'\n', block.as_bytes()).chain([block.len()]) {
        // After the last line end there is no further line.
        if begin < block.len() {
            let mut line = Deserializer::from_str(&block[begin..end]);
            let field = Field {
                name,
                texts: &mut texts.bytes,
            };
            line.deserialize_map(field)
                .ok()
                .filter(|count| *count == 1)?;
            line.end().ok()?;
            texts.offsets.push(i64::try_from(texts.bytes.len()).ok()?);
        }
        begin = end + 1;
    }
    Some(texts)
}

/// Appends the texts of a field of an object; its value is how many there are.
struct Field<'a> {
    name: &'a str,
    texts: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = usize;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<usize, A::Error> {
        let (name, mut count) = (self.name, 0);
        while let Some(is_named) = fields.next_key_seed(Seen(|key: &str| key == name))? {
            if is_named {
                let append = |text: &str| self.texts.extend_from_slice(text.as_bytes());
                fields.next_value_seed(Seen(append))?;
                count += 1;
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(count)
    }
}

/// Calls a function with a string, without a copy of it.
struct Seen<F>(F);

impl<'de, T, F: FnOnce(&str) -> T> DeserializeSeed<'de> for Seen<F> {
    type Value = T;

    fn deserialize<D: de::Deserializer<'de>>(self, from: D) -> Result<T, D::Error> {
        from.deserialize_str(self)
    }
}

impl<T, F: FnOnce(&str) -> T> Visitor<'_> for Seen<F> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_str<E>(self, text: &str) -> Result<T, E> {
        Ok((self.0)(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(block: &str) -> Option<Vec<String>> {
        let texts = json_texts(block.as_bytes(), "text")?;
        let borders = texts.offsets.windows(2);
        let each = borders.map(|two| &texts.bytes[two[0] as usize..two[1] as usize]);
        Some(
            each.map(|text| String::from_utf8_lossy(text).into_owned())
                .collect(),
        )
    }

    #[test]
    fn texts_are_taken_with_their_escapes() {
        let block = concat!(
            r#"{"id": [1, {"text": "no"}], "text": "a\n\u00e9\ud83d\ude00"}"#,
            "\r\n",
            r#" {"te\u0078t": "", "x": null} "#,
            "\n"
        );
        let expected = ["a\né\u{1f600}", ""].map(String::from);
        assert_eq!(texts(block), Some(expected.to_vec()));
        assert_eq!(texts(block.trim_end_matches('\n')), Some(expected.to_vec()));
        assert_eq!(texts(""), Some(vec![]));
    }

    #[test]
    fn all_escapes_are_known() {
        let all = r#"{"text": "\"\\\/\b\f\n\r\t"}"#;
        assert_eq!(texts(all), Some(vec!["\"\\/\u{8}\u{c}\n\r\t".into()]));
    }

    #[test]
    fn what_is_odd_is_left_to_others() {
        for line in [
            r#"{"text": null}"#,
            r#"{"text": 1}"#,
            r#"{"text": "a", "text": "b"}"#,
            r#"{"text": "\ud800"}"#,
            r#"{"text": "a"} {"text": "b"}"#,
            r#"{"text": "a""#,
            r#"{"text": NaN}"#,
            r#"{"text": "a", "n": NaN}"#,
            r#"{"text": "a", "n": 1.}"#,
            r#"{"text": "a",}"#,
            r#"{"text": "a" "n": 1}"#,
            r#"{"text" "a"}"#,
            r#"{"text": "\x"}"#,
            r#"{"text": "\u00g9"}"#,
            r#"{"text": "\u+0e9"}"#,
            r#"{"text": "\ud83d\u0041"}"#,
            r#"{"text": "\ud83dxx00e9"}"#,
            r#"{"text": "\udc00"}"#,
            "{\"text\": \"a\tb\"}",
            "{\"text\": \"a long text with a tab:\t, and more\"}",
            "{}",
            r#"["text", "a"]"#,
            r#"{"other": "a"}"#,
            " ",
        ] {
            assert_eq!(texts(&format!("{line}\n")), None, "{line}");
        }
        assert_eq!(texts("{\"text\": \"a\"}\n\n"), None);
        assert!(json_texts(b"{\"text\": \"a\", \"b\": \"\xff\"}", "text").is_none());
    }
}
