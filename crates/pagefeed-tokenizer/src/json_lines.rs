//! Texts of lines of JSON, as long as all is well with them.

use memchr::memchr_iter;
use serde::de::IgnoredAny;

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
        // No text is longer than what stands for it, and some more is written.
        bytes: Vec::with_capacity(block.len() + AT_ONCE),
        offsets: vec![0],
    };
    let mut key = Vec::new();
    let mut begin = 0;
    for end in memchr_iter(b'\n', block.as_bytes()).chain([block.len()]) {
        // What ends with a line has no more behind it.
        if begin < block.len() {
            let mut line = Line {
                line: &block[begin..end],
                at: 0,
            };
            line.take_text(name.as_bytes(), &mut key, &mut texts.bytes)?;
            texts.offsets.push(i64::try_from(texts.bytes.len()).ok()?);
        }
        begin = end + 1;
    }
    Some(texts)
}

/// Bytes examined at once: between most escapes there are fewer.
const AT_ONCE: usize = 32;

/// A line, read up to a byte. What is odd with it is `None`.
struct Line<'a> {
    line: &'a str,
    at: usize,
}

impl Line<'_> {
    /// Reads an object, and appends the text of its field `name` to `texts`. `key` is for
    /// its keys.
    fn take_text(&mut self, name: &[u8], key: &mut Vec<u8>, texts: &mut Vec<u8>) -> Option<()> {
        let mut is_found = false;
        self.pass(b'{')?;
        loop {
            self.pass(b'"')?;
            key.clear();
            self.string(key)?;
            self.pass(b':')?;
            if key == name {
                if is_found {
                    return None;
                }
                self.pass(b'"')?;
                self.string(texts)?;
                is_found = true;
            } else {
                self.skip_value()?;
            }
            match self.next()? {
                b',' => {}
                b'}' => break,
                _ => return None,
            }
        }
        (is_found && self.next().is_none()).then_some(())
    }

    /// Returns the next byte that is not a space.
    fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.line.as_bytes().get(self.at)?;
            self.at += 1;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
        }
    }

    /// Passes the next byte, which must be this one.
    fn pass(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Skips a value of any kind.
    fn skip_value(&mut self) -> Option<()> {
        let rest = self.line.get(self.at..)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(())
    }

    /// Appends the string whose first quote was passed, and passes its last one.
    fn string(&mut self, text: &mut Vec<u8>) -> Option<()> {
        loop {
            self.copy_plain(text);
            let byte = self.line.as_bytes().get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => return Some(()),
                b'\\' => self.escape(text)?,
                _ => return None, // A control character, which must be escaped.
            }
        }
    }

    /// Appends bytes up to a quote, a backslash or a control character: some at a time, of
    /// which the rest is taken back.
    fn copy_plain(&mut self, text: &mut Vec<u8>) {
        let line = self.line.as_bytes();
        while let Some(bytes) = line[self.at..].first_chunk::<AT_ONCE>() {
            text.extend_from_slice(bytes);
            let count = num_plain(bytes);
            self.at += count;
            if count < AT_ONCE {
                text.truncate(text.len() - (AT_ONCE - count));
                return;
            }
        }
        let is_plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..0x20);
        let rest = line[self.at..].iter().take_while(is_plain);
        let before = text.len();
        text.extend(rest);
        self.at += text.len() - before;
    }

    /// Appends the character of an escape whose backslash was passed.
    fn escape(&mut self, text: &mut Vec<u8>) -> Option<()> {
        let kind = *self.line.as_bytes().get(self.at)?;
        self.at += 1;
        if kind == b'u' {
            let mut utf8 = [0; 4];
            let character = self.character()?;
            text.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
            return Some(());
        }
        let byte = ESCAPES[usize::from(kind)];
        text.push(byte);
        (byte != 0).then_some(())
    }

    /// Returns the character of a `\u` escape, or of a pair of them.
    fn character(&mut self) -> Option<char> {
        let first = self.four_digits()?;
        if !matches!(first, 0xd800..0xdc00) {
            return char::from_u32(first);
        }
        let is_pair = self.line.as_bytes().get(self.at..self.at + 2)? == b"\\u";
        self.at += 2;
        let second = self.four_digits()?;
        (is_pair && matches!(second, 0xdc00..0xe000))
            .then(|| char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)))?
    }

    fn four_digits(&mut self) -> Option<u32> {
        let digits = self.line.as_bytes().get(self.at..self.at + 4)?;
        self.at += 4;
        let add = |code, &digit: &u8| Some(code << 4 | char::from(digit).to_digit(16)?);
        digits.iter().try_fold(0, add)
    }
}

/// Meaning of a byte after a backslash; 0 for none.
const ESCAPES: [u8; 256] = {
    let mut all = [0; 256];
    let (from, into) = (br#""\/nrtbf"#, b"\"\\/\n\r\t\x08\x0c");
    let mut n = 0;
    while n < from.len() {
        all[from[n] as usize] = into[n];
        n += 1;
    }
    all
};

/// Returns the bytes before a quote, a backslash or a control character.
#[cfg(target_arch = "x86_64")]
fn num_plain(bytes: &[u8; AT_ONCE]) -> usize {
    use std::arch::x86_64::*;
    let (halves, _) = bytes.as_chunks::<16>();
    let special = halves.iter().rev().fold(0_u32, |special, half| {
        // SAFETY: 16 bytes are read of 16, and all such processors have SSE2.
        let mask = unsafe {
            let bytes = _mm_loadu_si128(half.as_ptr().cast());
            let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
            let is_control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(is(b'"'), is(b'\\')), is_control))
        };
        special << 16 | mask.cast_unsigned()
    });
    special.trailing_zeros() as usize
}

#[cfg(not(target_arch = "x86_64"))]
fn num_plain(bytes: &[u8; AT_ONCE]) -> usize {
    let is_special = |byte: &u8| matches!(*byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().position(is_special).unwrap_or(AT_ONCE)
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
    fn what_is_special_is_seen_at_any_offset() {
        let all = r#"{"text": "\"\\\/\b\f\n\r\t"}"#;
        assert_eq!(texts(all), Some(vec!["\"\\/\u{8}\u{c}\n\r\t".into()]));
        for length in 0..70 {
            // Bytes one less and one more than those that are special, and beyond ASCII.
            for filler in ["!", "#", "[", "]", " ", "\u{7f}", "é", "\u{a2}"] {
                let plain = filler.repeat(length);
                let line = format!("{{\"text\": \"{plain}\\n{plain}\"}}\n");
                let expected = format!("{plain}\n{plain}");
                assert_eq!(texts(&line), Some(vec![expected.clone()]), "{line}");
                let two = format!("{line}{line}");
                assert_eq!(texts(&two), Some(vec![expected; 2]), "{two}");
                let with_control = line.replace("\\n", "\u{1f}");
                assert_eq!(texts(&with_control), None, "{with_control:?}");
            }
        }
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
