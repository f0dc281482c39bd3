//! Texts of lines of JSON, as long as all is well with them.

use memchr::memchr_iter;
use pagefeed_core::error::{Error, Result};
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

/// Texts one after the other.
#[derive(Debug, Default)]
pub struct Joined {
    /// All of them, in UTF-8.
    pub bytes: Vec<u8>,
    /// Where each begins, and the end.
    pub offsets: Vec<i64>,
}

/// The text that every line has in the field `name`. `None` if something is odd: a line
/// is empty or no object, lacks the field or has it twice, or something else is there.
pub fn json_texts(block: &[u8], name: &str) -> Option<Joined> {
    let block = simdutf8::basic::from_utf8(block).ok()?;
    let mut joined = Joined {
        bytes: Vec::with_capacity(block.len()),
        offsets: vec![0],
    };
    let mut begin = 0;
    for end in memchr_iter(b'\n', block.as_bytes()).chain([block.len()]) {
        // What ends with a line has no more behind it.
        if begin < block.len() {
            add_text(&block[begin..end], name, &mut joined.bytes).ok()?;
            joined.offsets.push(i64::try_from(joined.bytes.len()).ok()?);
        }
        begin = end + 1;
    }
    Some(joined)
}

fn add_text(line: &str, name: &str, texts: &mut Vec<u8>) -> Result<()> {
    // Of a `str`, whose texts need not be looked at again.
    let mut json = serde_json::Deserializer::from_str(line);
    let object = Object { name, texts };
    let odd = |error: serde_json::Error| Error::invalid(error.to_string());
    object.deserialize(&mut json).map_err(odd)?;
    json.end().map_err(odd)
}

/// An object, of which one field is taken.
struct Object<'a> {
    name: &'a str,
    texts: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut is_found = false;
        while let Some(is_it) = fields.next_key_seed(Name(self.name))? {
            if !is_it {
                fields.next_value::<IgnoredAny>()?;
                continue;
            }
            if is_found {
                return Err(A::Error::custom("the field is there twice"));
            }
            fields.next_value_seed(Text(self.texts))?;
            is_found = true;
        }
        match is_found {
            true => Ok(()),
            false => Err(A::Error::custom("the field is not there")),
        }
    }
}

/// Whether a key is this one.
struct Name<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Appends a text.
struct Text<'a>(&'a mut Vec<u8>);

impl<'de> DeserializeSeed<'de> for Text<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Text<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(block: &str) -> Option<Vec<String>> {
        let joined = json_texts(block.as_bytes(), "text")?;
        let borders = joined.offsets.windows(2);
        let parts = borders.map(|two| &joined.bytes[two[0] as usize..two[1] as usize]);
        Some(
            parts
                .map(|part| String::from_utf8_lossy(part).into_owned())
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
    fn what_is_odd_is_left_to_others() {
        for line in [
            r#"{"text": null}"#,
            r#"{"text": 1}"#,
            r#"{"text": "a", "text": "b"}"#,
            r#"{"text": "\ud800"}"#,
            r#"{"text": "a"} {"text": "b"}"#,
            r#"{"text": "a""#,
            r#"{"text": NaN}"#,
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
