//! From a server's answer to another attempt or a typed error.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use pagefeed_core::error::{Error, Kind};

use crate::transport::{Answer, Sent};

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another attempt may succeed.
    Again {
        why: String,
        /// Not before this, as the server asked.
        after: Option<Duration>,
        /// Whether it asked for fewer requests.
        is_throttled: bool,
    },
    /// No further attempt can succeed.
    Final(Error),
}

impl Failure {
    pub(crate) fn again(why: impl Into<String>) -> Self {
        Self::Again {
            why: why.into(),
            after: None,
            is_throttled: false,
        }
    }

    pub(crate) fn io(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self::Final(Error::new(Kind::Io(kind), message))
    }

    pub(crate) fn stale(what: &str) -> Self {
        Self::Final(Error::new(
            Kind::Stale,
            format!("{what}; put the indexed object back or build the index again"),
        ))
    }

    /// Of a response that is an error.
    pub(crate) fn of_status(status: u16, code: &str, after: Option<Duration>) -> Self {
        let shown = match code {
            "" => status.to_string(),
            code if code == status.to_string() => code.to_string(),
            code => format!("{status} {code}"),
        };
        match status {
            404 | 410 => Self::io(ErrorKind::NotFound, format!("does not exist ({shown})")),
            412 | 416 => Self::stale(&format!(
                "the object changed since it was indexed ({shown})"
            )),
            401 | 403 => Self::denied(&shown),
            400 if code.contains("Token") || code.contains("Credential") => Self::denied(&shown),
            400 if code == "RequestTimeout" => Self::again(format!("the server answers {shown}")),
            408 | 425 | 429 | 500..=599 if status != 501 => Self::Again {
                why: format!("the server answers {shown}"),
                after,
                is_throttled: matches!(status, 429 | 503),
            },
            _ => Self::io(ErrorKind::Other, format!("the server answers {shown}")),
        }
    }

    fn denied(shown: &str) -> Self {
        Self::io(
            ErrorKind::PermissionDenied,
            format!(
                "access is denied ({shown}): give credentials that are valid and may read it, by \
                 environment variables or storage_options"
            ),
        )
    }

    /// Of a request that had no response.
    pub(crate) fn of_sent(problem: &Sent, answer: &Answer) -> Self {
        match problem {
            Sent::Refused => Self::refused(answer.refused.unwrap_or_default()),
            Sent::Failed(error) => Self::again(cause(error)),
        }
    }

    /// Of an answer that broke off.
    pub(crate) fn of_body(error: reqwest::Error) -> Self {
        Self::again(cause(&error.without_url()))
    }

    fn refused(why: &str) -> Self {
        Self::Final(Error::invalid(why))
    }

    /// Of an error of object_store, with the answer it was made of.
    pub(crate) fn of_store(error: &object_store::Error, answer: &Answer) -> Self {
        if let Some(why) = answer.refused {
            return Self::refused(why);
        }
        match answer.status {
            Some(status) if status >= 300 => {
                Self::of_status(status, error_code(&error.to_string()), answer.retry_after)
            }
            _ if !answer.sent => Self::Final(Error::invalid(cause(error))),
            _ => Self::again(cause(error)),
        }
    }
}

/// The error code in an answer of XML or JSON, if there is one.
fn error_code(text: &str) -> &str {
    let found = [("<Code>", "</Code>"), ("\"reason\": \"", "\"")]
        .iter()
        .find_map(|(begin, end)| Some(text.split_once(begin)?.1.split_once(end)?.0));
    let is_word =
        |code: &&str| code.len() < 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    found.filter(is_word).unwrap_or_default()
}

/// The innermost cause, since outer ones show URLs, which may be signed.
fn cause(error: &dyn StdError) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let text = innermost.to_string();
    text.split("https://")
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(status: u16, code: &str) -> Option<Kind> {
        match Failure::of_status(status, code, None) {
            Failure::Again { .. } => None,
            Failure::Final(error) => Some(error.kind()),
        }
    }

    #[test]
    fn what_may_pass_is_tried_again() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert_eq!(kind(status, ""), None, "{status}");
        }
        assert_eq!(kind(404, ""), Some(Kind::Io(ErrorKind::NotFound)));
        assert_eq!(kind(403, "X"), Some(Kind::Io(ErrorKind::PermissionDenied)));
        let expired = kind(400, "ExpiredToken");
        assert_eq!(expired, Some(Kind::Io(ErrorKind::PermissionDenied)));
        assert_eq!(kind(412, ""), Some(Kind::Stale));
        assert_eq!(kind(501, ""), Some(Kind::Io(ErrorKind::Other)));
    }

    #[test]
    fn codes_are_words() {
        assert_eq!(error_code("a <Code>SlowDown</Code> b"), "SlowDown");
        assert_eq!(error_code("<Code>https://x?sig=1</Code>"), "");
        assert_eq!(error_code("nothing"), "");
    }
}
