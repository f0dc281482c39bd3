//! Values of settings: what they mean, and what is wrong with them.

use std::time::Duration;

use pagefeed_core::error::{Error, Result};
use url::Url;

use crate::places::address::shown;

/// More than these no server answers faster: each takes a thread of the loader.
const MOST_IN_FLIGHT: usize = 4096;
/// A cache smaller than this holds no page.
const LEAST_CACHE: usize = 16 << 10;

/// Refuses an endpoint that a request could not be sent to.
pub(crate) fn check_web_address(name: &str, value: Option<String>) -> Result<()> {
    let Some(value) = value else { return Ok(()) };
    let url = Url::parse(&value).ok();
    let is_web = |url: &Url| matches!(url.scheme(), "http" | "https") && url.has_host();
    if url.is_some_and(|url| is_web(&url)) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{name} is {:?}: it must be a web address such as \"https://minio.example:9000\"",
        shown(&value)
    )))
}

pub(super) fn is_true(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

pub(super) fn flag(name: &str, value: &str) -> Result<String> {
    let known = is_true(value).map(|is_true| is_true.to_string());
    known.ok_or_else(|| {
        Error::invalid(format!(
            "storage_options[{name:?}]={value:?} must be true or false"
        ))
    })
}

pub(super) fn cache_bytes(value: &str) -> Result<usize> {
    let bytes = positive("storage_cache", value)?;
    if bytes < LEAST_CACHE {
        return Err(Error::invalid(format!(
            "storage_cache={bytes} is {bytes} bytes, which holds no page: give some gigabytes, \
             such as \"200GB\""
        )));
    }
    Ok(bytes)
}

pub(super) fn in_flight(name: &str, value: &str) -> Result<usize> {
    let number = positive(name, value)?;
    if number > MOST_IN_FLIGHT {
        return Err(Error::invalid(format!(
            "storage_options[{name:?}]={number} is more than {MOST_IN_FLIGHT}: give fewer"
        )));
    }
    Ok(number)
}

pub(super) fn seconds(name: &str, value: &str) -> Result<Duration> {
    let known = value.parse().ok().filter(|seconds| *seconds > 0.0);
    known
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| {
            Error::invalid(format!(
                "storage_options[{name:?}]={value:?} must be seconds, above 0"
            ))
        })
}

fn positive(name: &str, value: &str) -> Result<usize> {
    let known = value.parse().ok().filter(|number| *number > 0);
    known.ok_or_else(|| {
        Error::invalid(format!(
            "storage_options[{name:?}]={value:?} must be a whole number above 0"
        ))
    })
}
