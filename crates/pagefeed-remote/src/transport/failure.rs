//! From a server's answer to another attempt or a typed error.

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::time::Duration;

use pagefeed_core::error::{Error, Kind};

use crate::transport::{Answer, STUCK, Sent};

/// Seconds by which clocks may differ: servers refuse signatures that are 15 minutes old.
const CLOCK: i64 = 600;
/// Codes of status 409 that pass when another writer is done.
const BUSY: [&str; 2] = ["ConditionalRequestConflict", "OperationAborted"];

/// Why an attempt failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another attempt may succeed.
    Again {
        why: String,
        /// Not before this, as the server asked.
        after: Option<Duration>,
        /// Whether the server asked for fewer requests.
        is_throttled: bool,
    },
    /// The answer has no tag, though the object had one. That may happen once; if it stays
    /// so, the error says what is wrong.
    Untagged(Error),
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
        Self::Final(stale(what))
    }

    /// Failure of an answer without a tag, or with only a date.
    pub(crate) fn untagged(is_dated: bool) -> Self {
        Self::Untagged(if is_dated {
            stale("the object changed since it was indexed, or its ETag was lost on the way")
        } else {
            Error::new(
                Kind::Io(ErrorKind::InvalidData),
                "the answer has no ETag, which the index knows of, also when it is asked again, \
                 so that nobody can tell whether the object changed: a proxy may drop the header",
            )
        })
    }

    /// Failure of a whole file as the answer to a request for a part of it.
    pub(crate) fn no_ranges() -> Self {
        Self::io(
            ErrorKind::Unsupported,
            "the server does not answer ranges of bytes, without which the whole file would be \
             fetched for every page: copy the file, or use another server; one that decompresses \
             what it sends (Content-Encoding) must store the file as it is",
        )
    }

    /// Failure of a response with an error status.
    pub(crate) fn of_answer(answer: &Answer, code: &str) -> Self {
        let status = answer.status.unwrap_or_default();
        let shown = match code {
            "" => status.to_string(),
            code if code == status.to_string() => code.to_string(),
            code => format!("{status} {code}"),
        };
        let denied = |why: &str| {
            Self::io(
                ErrorKind::PermissionDenied,
                format!("access is denied ({shown}): {why}"),
            )
        };
        let credentials = || {
            denied(&format!(
                "give credentials that are valid and may {} it, by environment variables or \
                 storage_options, without skip_signature (anon), which sends none",
                answer.asked.verb()
            ))
        };
        match (status, code) {
            (404, code) if is_bucket_missing(code) => Self::io(
                ErrorKind::NotFound,
                format!("there is no such bucket ({shown}): check its name and endpoint_url"),
            ),
            (404 | 410, _) => Self::io(ErrorKind::NotFound, format!("does not exist ({shown})")),
            (412, _) if answer.asked.is_change() => Self::io(
                ErrorKind::Other,
                format!(
                    "the storage refuses the write ({shown}): another process may have written \
                     or removed the same object; let one do it, and start it again"
                ),
            ),
            (412 | 416, _) => Self::stale(&format!(
                "the object changed since it was indexed ({shown})"
            )),
            (403, "InvalidObjectState") => Self::io(
                ErrorKind::Unsupported,
                format!("the object is archived ({shown}): restore it first, then read it"),
            ),
            (400 | 401 | 403, _)
                if code == "RequestTimeTooSkewed" || answer.seconds_ahead.abs() > CLOCK =>
            {
                let (seconds, side) = (answer.seconds_ahead, ["behind", "ahead of"]);
                denied(&format!(
                    "the clock of this machine is {} s {} the server's: set it",
                    seconds.abs(),
                    side[usize::from(seconds > 0)]
                ))
            }
            (507, _) => no_room(&shown),
            (400..=428, code) if code.contains("Quota") => no_room(&shown),
            (401 | 403, _) => credentials(),
            (400, code) if code.contains("Token") || code.contains("Credential") => credentials(),
            (409, code) if BUSY.contains(&code) => {
                Self::again(format!("another process writes it now ({shown})"))
            }
            (400, "RequestTimeout") => Self::again(format!("the server answers {shown}")),
            (300..=399, _) => Self::moved(answer, &shown),
            (408 | 425 | 429 | 500..=599, _) if status != 501 => Self::Again {
                why: format!("the server answers {shown}"),
                after: answer.retry_after,
                is_throttled: matches!(status, 429 | 503),
            },
            _ => Self::io(ErrorKind::Other, format!("the server answers {shown}")),
        }
    }

    /// Failure of a redirect that is not followed.
    fn moved(answer: &Answer, shown: &str) -> Self {
        let advice = match &answer.region {
            Some(region) => format!(
                "the bucket is in region {region}: give storage_options={{\"region\": \
                 {region:?}}} (AWS_REGION), and no endpoint_url of another region"
            ),
            None => "the redirect has no address: check URL, region and endpoint_url".to_string(),
        };
        Self::io(
            ErrorKind::Other,
            format!("the server answers {shown}; {advice}"),
        )
    }

    /// Failure of a request without a response.
    pub(crate) fn of_sent(problem: &Sent, answer: &Answer) -> Self {
        match (problem, &answer.refused) {
            (Sent::Failed(error), _) => Self::again(cause(error)),
            (Sent::Stuck, _) => Self::again(STUCK),
            (Sent::Refused, Some(why)) => Self::Final(why.clone()),
            (Sent::Refused, None) => Self::Final(Error::internal("nothing was sent")),
        }
    }

    /// Failure of an answer that broke off.
    pub(crate) fn of_body(error: reqwest::Error) -> Self {
        Self::again(cause(&error.without_url()))
    }

    /// Failure of an error of object_store, with its answer.
    pub(crate) fn of_store(error: &object_store::Error, answer: &Answer) -> Self {
        match (&answer.refused, answer.status) {
            (Some(why), _) if may_pass(why) => Self::again(why.message()),
            (Some(why), _) => Self::Final(why.clone()),
            (_, None) if answer.is_near => Self::no_credentials(),
            (_, Some(status)) if answer.is_near && status >= 400 => Self::no_credentials(),
            (_, Some(status)) if status >= 300 => {
                Self::of_answer(answer, error_code(&error.to_string()))
            }
            (_, Some(_)) if is_without_tag(error) => Self::untagged(false),
            (_, Some(200)) if cause(error).contains("non-partial") => Self::no_ranges(),
            _ if !answer.sent => Self::Final(Error::invalid(cause(error))),
            _ => Self::again(cause(error)),
        }
    }

    fn no_credentials() -> Self {
        Self::io(
            ErrorKind::PermissionDenied,
            "no credentials were found: neither storage_options nor the environment name any, and \
             no service of this machine gives some. Name some, such as \
             GOOGLE_APPLICATION_CREDENTIALS for gs:// or AZURE_STORAGE_ACCOUNT_KEY for az://; to \
             read a public bucket give storage_options={\"skip_signature\": True}",
        )
    }
}

fn stale(what: &str) -> Error {
    Error::new(
        Kind::Stale,
        format!("{what}; put the indexed object back or build the index again"),
    )
}

/// Whether an error of finding keys may pass.
pub(crate) fn may_pass(error: &Error) -> bool {
    error.kind() == Kind::Io(ErrorKind::TimedOut)
}

/// Whether an error code means that the bucket does not exist.
pub(crate) fn is_bucket_missing(code: &str) -> bool {
    matches!(code, "NoSuchBucket" | "ContainerNotFound")
}

fn no_room(shown: &str) -> Failure {
    Failure::io(
        ErrorKind::StorageFull,
        format!("a quota is used up ({shown}): remove objects, or ask for more"),
    )
}

/// Whether the error of object_store is that an answer has no tag.
fn is_without_tag(error: &object_store::Error) -> bool {
    cause(error).contains("ETag Header missing")
}

/// The region that an answer of XML names.
pub(crate) fn region(error: &object_store::Error) -> Option<String> {
    let text = error.to_string();
    let region = text.split_once("<Region>")?.1.split_once("</Region>")?.0;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_region = region.len() < 64 && region.bytes().all(is_part);
    is_region.then(|| region.to_string())
}

/// Returns the error code in an answer of XML or JSON, if there is one.
pub(crate) fn error_code(text: &str) -> &str {
    let code_in_text = [("<Code>", "</Code>"), ("\"reason\": \"", "\"")]
        .iter()
        .find_map(|(begin, end)| Some(text.split_once(begin)?.1.split_once(end)?.0));
    let is_word =
        |code: &&str| code.len() < 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    code_in_text.filter(is_word).unwrap_or_default()
}

/// The innermost cause, since outer ones show URLs, which may be signed.
pub(crate) fn cause(error: &dyn StdError) -> String {
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
    use crate::transport::Asked;

    fn kind(status: u16, code: &str) -> Option<Kind> {
        match Failure::of_answer(&answer(status), code) {
            Failure::Again { .. } | Failure::Untagged(_) => None,
            Failure::Final(error) => Some(error.kind()),
        }
    }

    fn answer(status: u16) -> Answer {
        Answer {
            status: Some(status),
            ..Answer::default()
        }
    }

    fn text_of(answer: &Answer, code: &str) -> String {
        format!("{:?}", Failure::of_answer(answer, code))
    }

    #[test]
    fn what_is_wrong_is_told_as_what_it_is() {
        let archived = text_of(&answer(403), "InvalidObjectState");
        assert!(archived.contains("archived"), "{archived}");
        let late = Answer {
            seconds_ahead: -3600,
            ..answer(403)
        };
        let late = text_of(&late, "");
        assert!(late.contains("3600 s behind the server's"), "{late}");
        let elsewhere = Answer {
            region: Some("eu-west-1".into()),
            ..answer(301)
        };
        let elsewhere = text_of(&elsewhere, "PermanentRedirect");
        assert!(elsewhere.contains("in region eu-west-1"), "{elsewhere}");
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
        assert_eq!(kind(409, "OperationAborted"), None);
        let refused = kind(409, "InvalidBucketState");
        assert_eq!(refused, Some(Kind::Io(ErrorKind::Other)));
        for (status, code) in [
            (507, ""),
            (403, "QuotaExceeded"),
            (400, "XAdminQuotaExceeded"),
        ] {
            let full = Some(Kind::Io(ErrorKind::StorageFull));
            assert_eq!(kind(status, code), full, "{status}");
        }
        assert_eq!(kind(429, "QuotaExceeded"), None);
    }

    #[test]
    fn what_credentials_lack_is_what_was_asked() {
        for (asked, verb) in [
            (Asked::Reading, "may read it"),
            (Asked::Writing, "may write it"),
            (Asked::Removing, "may remove it"),
        ] {
            let answer = Answer {
                asked,
                ..answer(403)
            };
            let said = text_of(&answer, "AccessDenied");
            assert!(said.contains(verb), "{said}");
        }
        for asked in [Asked::Writing, Asked::Removing] {
            let answer = Answer {
                asked,
                ..answer(412)
            };
            let said = text_of(&answer, "PreconditionFailed");
            assert!(said.contains("refuses the write"), "{said}");
        }
        let missing = text_of(&answer(404), "NoSuchBucket");
        assert!(missing.contains("no such bucket"), "{missing}");
    }

    #[test]
    fn codes_are_words() {
        assert_eq!(error_code("a <Code>SlowDown</Code> b"), "SlowDown");
        assert_eq!(error_code("<Code>https://x?sig=1</Code>"), "");
        assert_eq!(error_code("nothing"), "");
    }
}
