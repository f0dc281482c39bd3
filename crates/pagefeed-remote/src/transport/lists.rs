//! Answers of lists, without the names that object_store does not take: for one of them it
//! would refuse all the others.

use bytes::Bytes;

use crate::address::object_path;

/// Elements of a list, and the inner element with the name.
const ENTRIES: [(&str, &str); 4] = [
    ("Contents", "Key"),
    ("CommonPrefixes", "Prefix"),
    ("Blob", "Name"),
    ("BlobPrefix", "Name"),
];

/// Whether a request with this query is answered by a list.
pub(super) fn is_list(query: Option<&str>) -> bool {
    let mut parts = query.unwrap_or_default().split('&');
    parts.any(|parameter| matches!(parameter, "list-type=2" | "comp=list"))
}

/// Returns a list without objects that no URL can name, and their number. Markers of
/// folders are left out and not counted, since they are not files.
pub(super) fn readable(body: Bytes) -> (Bytes, u64) {
    let Ok(text) = str::from_utf8(&body) else {
        return (body, 0);
    };
    let (mut left_out, mut num_skipped) = (Vec::new(), 0);
    for (entry, name) in ENTRIES {
        let (begin, end) = (format!("<{entry}>"), format!("</{entry}>"));
        for (at, _) in text.match_indices(&begin) {
            let Some(size) = text[at..].find(&end) else {
                continue;
            };
            let whole = at..at + size + end.len();
            let Some(key) = named(&text[whole.clone()], name) else {
                continue;
            };
            let is_marker = key.ends_with('/');
            let is_folder = entry.ends_with("Prefixes") || entry.ends_with("Prefix");
            let path = key.strip_suffix('/').unwrap_or(&key);
            let is_sound = object_path(path).is_ok() && key.trim() == key;
            if !is_sound || (is_marker && !is_folder) {
                num_skipped += u64::from(!is_sound);
                left_out.push(whole);
            }
        }
    }
    if left_out.is_empty() {
        return (body, 0);
    }
    left_out.sort_unstable_by_key(|range| range.start);
    let (mut readable_body, mut from) = (Vec::with_capacity(body.len()), 0);
    for range in left_out {
        readable_body.extend_from_slice(&body[from..range.start]);
        from = range.end;
    }
    readable_body.extend_from_slice(&body[from..]);
    (readable_body.into(), num_skipped)
}

/// The text of an element of this name.
fn named(entry: &str, name: &str) -> Option<String> {
    let (_, rest) = entry.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(decoded(text))
}

/// Text without the entities of XML.
fn decoded(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find(';').map_or(rest.len(), |end| end + 1);
        match sign(&rest[..end]) {
            Some(sign) => plain.push(sign),
            None => plain.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    plain + rest
}

fn sign(entity: &str) -> Option<char> {
    let name = entity.strip_prefix('&')?.strip_suffix(';')?;
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let reference = name.strip_prefix('#')?;
            let code = match reference.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => reference.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_object_store_takes_is_left() {
        let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let folder = |key: &str| format!("<CommonPrefixes><Prefix>{key}</Prefix></CommonPrefixes>");
        let good = [
            object("a/b&amp;c.parquet"),
            folder("a/"),
            object(" a/&#x41; b"),
        ];
        let bad = [
            "a//b", "a/./b", "../b", "/a", "a&#9;b", "a&#xA;b", "a\tb", "a ", "a//",
        ];
        let blobs = "<Blob><Name>x//y</Name></Blob><Blob><Name>x/y</Name></Blob>";
        let mut list = format!("<List>{}{blobs}{}", good[0], object("marker.parquet/"));
        for key in bad {
            list += &object(key);
        }
        list = format!("{list}{}{}{}</List>", good[1], folder("a//"), good[2]);
        let (left, num_skipped) = readable(list.into());
        let kept = format!(
            "<List>{}<Blob><Name>x/y</Name></Blob>{}</List>",
            good[0], good[1]
        );
        // A key that ends or begins with a blank loses it in the reader of XML.
        assert_eq!(str::from_utf8(&left).unwrap(), kept);
        assert_eq!(num_skipped, bad.len() as u64 + 3);
    }

    #[test]
    fn what_is_no_list_stays_as_it_is() {
        for body in [&b"\xff<Contents>"[..], b"<Contents><Key>a//b", b""] {
            assert_eq!(readable(Bytes::from_static(body)), (body.into(), 0));
        }
        assert!(is_list(Some("prefix=a&list-type=2")) && is_list(Some("comp=list")));
        assert!(!is_list(Some("list-type=20")) && !is_list(None));
    }
}
