//! Meaning of a URL: an endpoint, and a name in it.

use object_store::path::Path;
use pagefeed_core::error::{Error, Result, shown_path};
use url::Url;

/// Schemes that are read, for messages.
const SCHEMES: &str = "s3://, gs://, az://, abfss://, https:// and hf://";

/// The providers of buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Provider {
    Amazon,
    Google,
    Azure,
}

/// Address of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// `s3://bucket/key` and similar.
    Object(Object),
    /// `https://host/path`.
    Web(Url),
    /// `hf://datasets/owner/name@commit/path`, or `hf://buckets/owner/name/path`.
    Hub(HubFile),
    /// `store://key`: in the store that the user brought.
    Own(String),
}

/// An object of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) provider: Provider,
    pub(crate) bucket: String,
    pub(crate) key: String,
}

/// A file of a dataset or a bucket on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HubFile {
    /// `datasets/owner/name`, or `buckets/owner/name`.
    pub(crate) place: String,
    /// Empty for buckets, which have no commits.
    pub(crate) commit: String,
    pub(crate) path: String,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(Error::invalid(format!(
                "{} is not a URL: {SCHEMES} are read",
                shown(url)
            )));
        };
        let object = |provider| {
            let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
            let has_account = account_of(scheme, bucket).is_some();
            if bucket.is_empty() || (bucket.contains('@') && !has_account) {
                let message = format!("{} should be {scheme}://BUCKET/PATH", shown(url));
                return Err(Error::invalid(message));
            }
            if key.starts_with('/') {
                return Err(no_object(url));
            }
            Ok(Self::Object(Object {
                provider,
                bucket: bucket.to_string(),
                key: key.to_string(),
            }))
        };
        match scheme {
            "s3" | "s3a" => object(Provider::Amazon),
            "gs" | "gcs" => object(Provider::Google),
            "az" | "azure" | "abfs" | "abfss" => object(Provider::Azure),
            "http" | "https" => web(url),
            "hf" => hub(url, rest),
            "store" => Ok(Self::Own(
                object_path(rest.strip_suffix('/').unwrap_or(rest))?.to_string(),
            )),
            _ => Err(Error::unsupported(format!(
                "{scheme}:// is not read: {SCHEMES} are"
            ))),
        }
    }
}

/// Container and account of `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH`.
fn account_of<'a>(scheme: &str, bucket: &'a str) -> Option<(&'a str, &'a str)> {
    let parts = bucket.split_once('@')?;
    let (container, host) = parts;
    let is_host = host.contains('.') && !host.contains([':', '@']);
    (scheme.starts_with("abfs") && is_host && !container.is_empty() && !container.contains(':'))
        .then_some(parts)
}

fn web(text: &str) -> Result<Address> {
    let (_, rest) = shown_path(text).split_once('/').unwrap_or_default();
    if climbs(rest) {
        return Err(Error::invalid(format!(
            "{:?} may mean another place of its server: it has /../, a backslash or a control sign \
             in it, plain or escaped; give the address without them",
            shown(text)
        )));
    }
    let url = Url::parse(text)
        .map_err(|problem| Error::invalid(format!("{} is not a URL: {problem}", shown(text))))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid(
            "a URL with a user and a password would be shown in errors and states: give \
             storage_options={\"authorization\": ...} instead",
        ));
    }
    Ok(Address::Web(url))
}

/// Whether a server, or what is in front of it, may read a path as another one.
fn climbs(path: &str) -> bool {
    let plain = [("%2e", "."), ("%2f", "/"), ("%5c", "\\"), ("%7f", "\x7f")];
    let mut path = path.to_ascii_lowercase();
    for (escaped, sign) in plain {
        path = path.replace(escaped, sign);
    }
    let is_escaped_control =
        |pair: &[u8]| matches!(pair, [b'%', b'0' | b'1', hex] if hex.is_ascii_hexdigit());
    path.contains(|sign: char| sign == '\\' || sign.is_control())
        || path.as_bytes().windows(3).any(is_escaped_control)
        || path.split('/').any(|part| matches!(part, "." | ".."))
}

fn hub(url: &str, rest: &str) -> Result<Address> {
    let parsed = || {
        let (kind, rest) = rest.split_once('/')?;
        let (owner, rest) = rest.split_once('/')?;
        let (name, path) = rest.split_once('/')?;
        let (name, commit) = match kind {
            "datasets" => name.split_once('@')?,
            "buckets" => (name, ""),
            _ => return None,
        };
        object_path(path).ok()?;
        Some(Address::Hub(HubFile {
            place: format!("{kind}/{owner}/{name}"),
            commit: commit.to_string(),
            path: path.to_string(),
        }))
    };
    parsed().ok_or_else(|| {
        let url = shown(url);
        Error::invalid(format!(
            "{url} should be hf://datasets/OWNER/NAME@COMMIT/PATH or hf://buckets/OWNER/NAME/PATH"
        ))
    })
}

/// Returns the path of an object for object_store. Names that it would change are
/// refused, since another object would be read.
pub(crate) fn object_path(key: &str) -> Result<Path> {
    let path = Path::parse(key).ok();
    path.filter(|path| path.as_ref() == key)
        .ok_or_else(|| no_object(key))
}

fn no_object(name: &str) -> Error {
    Error::invalid(format!(
        "{:?} is no name of an object that can be read: it begins or ends with /, or has //, \
         /./, /../ or a control sign in it; copy the object to another name",
        shown(name)
    ))
}

/// A URL without user, password and signature, for messages.
pub(crate) fn shown(url: &str) -> String {
    let url = shown_path(url);
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_string();
    };
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rfind('@') {
        _ if account_of(scheme, authority).is_some() => url.to_string(),
        Some(at) => format!("{scheme}://...{}", &rest[at..]),
        None => url.to_string(),
    }
}

/// Refuses an endpoint that a request could not be sent to.
pub(crate) fn check_web_address(name: &str, value: Option<&str>) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let is_open = |url: &Url| url.username().is_empty() && url.password().is_none();
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if Url::parse(value).is_ok_and(|url| is_web(&url) && is_open(&url)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name} is {:?}: it must be a web address such as \"https://minio.example:9000\", without user \
         and password",
        shown(value)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_a_bucket_and_a_key() {
        let parsed = Address::parse("s3://corpus/web/date=2024-01/a b.parquet").unwrap();
        let expected = Object {
            provider: Provider::Amazon,
            bucket: "corpus".into(),
            key: "web/date=2024-01/a b.parquet".into(),
        };
        assert_eq!(parsed, Address::Object(expected));
    }

    #[test]
    fn a_container_may_name_its_account() {
        let named = "corpus@account.dfs.core.windows.net";
        for (scheme, bucket) in [("abfs", "corpus"), ("abfss", named), ("abfs", named)] {
            let url = format!("{scheme}://{bucket}/web/a.parquet");
            let expected = Object {
                provider: Provider::Azure,
                bucket: bucket.into(),
                key: "web/a.parquet".into(),
            };
            assert_eq!(Address::parse(&url).unwrap(), Address::Object(expected));
            assert_eq!(shown(&url), url);
        }
        for url in [
            "az://corpus@a.b/c",
            "s3://k:s@bucket/a",
            "abfss://u:p@a.b/c",
            "abfss://@a.b/c",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn no_name_means_another_object() {
        for key in ["/a", "a/", "a//b", "a/./b", "../a", "a/..", "a\tb", "a\nb"] {
            assert!(object_path(key).is_err(), "{key:?}");
        }
        for key in ["", "a", "a/b", "a..b/.c", "a b/\u{e4}%2F", " a"] {
            assert_eq!(object_path(key).unwrap().as_ref(), key);
        }
    }

    #[test]
    fn no_address_means_another_place_of_its_server() {
        for path in [
            "a/../b", "%2e%2E/b", ".%2e/b", "a/./b", "a\\b", "..%5cb", "..%2fb", "a\nb", "a\tb",
            "a%0ab", "a%00", "a\u{7f}b", "..", "..?x=1",
        ] {
            let error = Address::parse(&format!("https://host/public/{path}")).unwrap_err();
            assert!(
                error.to_string().contains("another place"),
                "{path:?}: {error}"
            );
        }
        for path in ["a..b/.c", "...", "a b", "\u{e4}%20%25", "a?b=/../", ""] {
            assert!(
                Address::parse(&format!("https://host/{path}")).is_ok(),
                "{path:?}"
            );
        }
    }

    #[test]
    fn files_of_buckets_have_none() {
        let parsed = Address::parse("hf://buckets/owner/name/data/a@1.parquet").unwrap();
        let expected = HubFile {
            place: "buckets/owner/name".into(),
            commit: String::new(),
            path: "data/a@1.parquet".into(),
        };
        assert_eq!(parsed, Address::Hub(expected));
    }

    #[test]
    fn files_of_the_hub_have_a_commit() {
        let parsed = Address::parse("hf://datasets/owner/name@12ab/data/a.parquet").unwrap();
        let expected = HubFile {
            place: "datasets/owner/name".into(),
            commit: "12ab".into(),
            path: "data/a.parquet".into(),
        };
        assert_eq!(parsed, Address::Hub(expected));
    }

    #[test]
    fn what_is_no_address_is_refused_with_words_on_what_to_write() {
        for (url, word) in [
            ("plain/path", "is not a URL"),
            ("s3:///key", "s3://BUCKET/PATH"),
            ("s3://bucket//key", "begins or ends with /"),
            (
                "hf://datasets/a/b@c/x/../y",
                "hf://datasets/OWNER/NAME@COMMIT",
            ),
            ("ftp://host/a", "is not read"),
            ("hf://spaces/a/b", "hf://datasets/OWNER/NAME"),
            ("hf://datasets/a/b/c", "hf://datasets/OWNER/NAME@COMMIT"),
        ] {
            let message = Address::parse(url).unwrap_err().to_string();
            assert!(message.contains(word), "{message}");
        }
    }

    #[test]
    fn no_password_is_taken_or_shown() {
        let error = Address::parse("https://user:secret@host/a").unwrap_err();
        assert!(!error.to_string().contains("secret"));
        let error = Address::parse("https://host:port/a?sig=secret").unwrap_err();
        assert!(!error.to_string().contains("secret"));
        let error = Address::parse("s3a://id:secret@bucket/a").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
        assert_eq!(shown("https://user:p@host/c@d?e"), "https://...@host/c@d");
    }
}
