//! Answers of lists: complete, and without the names that object_store does not take. For
//! one of them it would refuse all other names, and it takes any document for a list.

use std::io::ErrorKind;
use std::ops::Range;

use bytes::Bytes;
use pagefeed_core::error::{Error, Kind, Result};

use crate::address::object_path;

/// Root elements of lists: of S3 and Google, and of Azure.
const ROOTS: [&str; 2] = ["ListBucketResult", "EnumerationResults"];
/// Characters of an answer that an error shows.
const SHOWN: usize = 120;

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

/// Checks that a document is a list, and that a list with further pages says where they
/// are; returns the place of a token that leads nowhere.
fn check(text: &str) -> Result<Option<Range<usize>>> {
    let root = root(text);
    if root == "Error" {
        return Err(refused(text, ErrorKind::TimedOut, "is an error"));
    }
    let (prefix, local) = root.split_at(root.find(':').map_or(0, |at| at + 1));
    if !ROOTS.contains(&local) {
        return Err(refused(text, ErrorKind::InvalidData, "is not a list"));
    }
    let end = text.trim_end();
    if !end.ends_with(&format!("</{root}>")) && !end.ends_with("/>") {
        return Err(refused(text, ErrorKind::TimedOut, "breaks off"));
    }
    let element = |name: &str| {
        let begin = format!("<{prefix}{name}>");
        let inside = text.find(&begin)? + begin.len();
        let size = text[inside..].find(&format!("</{prefix}{name}>"))?;
        Some(inside..inside + size).filter(|inside| !inside.is_empty())
    };
    let token = element("NextContinuationToken");
    let is_truncated = match element("IsTruncated") {
        Some(word) => text[word].trim().eq_ignore_ascii_case("true"),
        None if local == ROOTS[0] => token.is_some() || element("NextMarker").is_some(),
        None => false,
    };
    if is_truncated && token.is_none() {
        let why = "is a part of a list (IsTruncated) without a NextContinuationToken";
        return Err(refused(text, ErrorKind::InvalidData, why));
    }
    Ok(token.filter(|_| !is_truncated))
}

fn refused(text: &str, kind: ErrorKind, why: &str) -> Error {
    let shown: String = text.chars().take(SHOWN).collect();
    Error::new(
        Kind::Io(kind),
        format!(
            "the answer to a list {why}: check endpoint_url and proxies, and whether the storage \
             knows ListObjectsV2; the answer begins with {shown:?}"
        ),
    )
}

/// Name of the first element of a document; empty if there is none.
fn root(text: &str) -> &str {
    let mut rest = text.trim_start_matches('\u{feff}').trim_start();
    for (begin, end) in [("<?", "?>"), ("<!--", "-->")] {
        if rest.starts_with(begin) {
            rest = rest
                .split_once(end)
                .map_or("", |(_, rest)| rest.trim_start());
        }
    }
    let is_end = |sign: char| sign.is_whitespace() || matches!(sign, '>' | '/');
    let name = rest.strip_prefix('<').unwrap_or_default();
    name.split(is_end).next().unwrap_or_default()
}

/// Returns a list without objects that no URL can name, and their number. Markers of
/// folders are left out and not counted, since they are not files. A document that is not a
/// list, or a part of one, is refused.
pub(super) fn readable(body: Bytes) -> Result<(Bytes, u64)> {
    let text = str::from_utf8(&body)
        .map_err(|_| refused("", ErrorKind::InvalidData, "is not text in UTF-8"))?;
    let (mut left_out, mut num_skipped) = (Vec::from_iter(check(text)?), 0);
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
        return Ok((body, 0));
    }
    left_out.sort_unstable_by_key(|range| range.start);
    let (mut readable_body, mut from) = (Vec::with_capacity(body.len()), 0);
    for range in left_out {
        readable_body.extend_from_slice(&body[from..range.start]);
        from = range.end;
    }
    readable_body.extend_from_slice(&body[from..]);
    Ok((readable_body.into(), num_skipped))
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
        let mut list = format!(
            "<ListBucketResult>{}{blobs}{}",
            good[0],
            object("marker.parquet/")
        );
        for key in bad {
            list += &object(key);
        }
        list = format!(
            "{list}{}{}{}</ListBucketResult>",
            good[1],
            folder("a//"),
            good[2]
        );
        let (left, num_skipped) = readable(list.into()).unwrap();
        let kept = format!(
            "<ListBucketResult>{}<Blob><Name>x/y</Name></Blob>{}</ListBucketResult>",
            good[0], good[1]
        );
        // A key that ends or begins with a blank loses it in the reader of XML.
        assert_eq!(str::from_utf8(&left).unwrap(), kept);
        assert_eq!(num_skipped, bad.len() as u64 + 3);
    }

    #[test]
    fn a_list_is_complete_or_refused() {
        let read = |body: &str| readable(Bytes::copy_from_slice(body.as_bytes()));
        let list = |inside: &str| {
            format!(
                "<?xml version='1.0'?>\n<ListBucketResult xmlns='a'>{inside}</ListBucketResult>"
            )
        };
        let (part, whole) = (
            "<IsTruncated>true</IsTruncated>",
            "<IsTruncated>false</IsTruncated>",
        );
        let token = "<NextContinuationToken>a</NextContinuationToken>";
        let no_token = "<NextContinuationToken></NextContinuationToken>";
        for kept in [
            list(""),
            list(whole),
            list(token),
            list(&format!("{part}{token}")),
            "<EnumerationResults><NextMarker>a</NextMarker></EnumerationResults>".into(),
            "<ListBucketResult/>".into(),
            "<a:ListBucketResult></a:ListBucketResult>".into(),
        ] {
            assert_eq!(read(&kept).unwrap(), (kept.clone().into(), 0));
        }
        let left = read(&list(&format!("{whole}{token}"))).unwrap().0;
        assert_eq!(left, list(&format!("{whole}{no_token}")));
        let bad = [
            list(part),
            list(&format!("{part}{no_token}")),
            list("<NextMarker>a</NextMarker>"),
            "<html>Log in</html>".into(),
            "<Error><Code>InternalError</Code></Error>".into(),
            "<ListBucketResult><Contents>".into(),
            "{}".into(),
            String::new(),
        ];
        for body in bad {
            assert!(read(&body).is_err(), "{body}");
        }
        assert!(readable(Bytes::from_static(b"<ListBucketResult>\xff")).is_err());
        assert!(is_list(Some("prefix=a&list-type=2")) && is_list(Some("comp=list")));
        assert!(!is_list(Some("list-type=20")) && !is_list(None));
    }
}
