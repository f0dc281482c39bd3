//! Files of web servers that answer ranges.

use std::ops::Range;
use std::sync::Arc;

use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, LAST_MODIFIED, LOCATION, RANGE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pagefeed_core::error::Error;
use reqwest::{Request, Response};
use url::Url;

use crate::backends::bucket::Meta;
use crate::transport::body::Body;
use crate::transport::failure::Failure;
use crate::transport::{Answer, Transport, observed};

/// Redirects that are followed at most.
const MOST_REDIRECTS: usize = 5;

pub(crate) struct Web {
    pub(crate) transport: Arc<Transport>,
    /// Sent to the server of a URL, not to servers that it redirects to.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Web {
    pub(crate) fn new(
        transport: Arc<Transport>,
        authorization: Option<&str>,
    ) -> Result<Self, Error> {
        let header = |value| secret(value, "storage_options[\"authorization\"]");
        Ok(Self {
            transport,
            authorization: authorization.map(header).transpose()?,
        })
    }

    pub(crate) async fn head(&self, url: &Url) -> Result<Meta, Failure> {
        let first = [(RANGE, "bytes=0-0".to_string())];
        let response = match self.follow(Method::HEAD, url, &[]).await {
            Err((answer, _)) if answer.may_refuse_head() => {
                self.follow(Method::GET, url, &first).await
            }
            asked => asked,
        };
        let response = response.map_err(|(_, failure)| failure)?;
        Ok(Meta {
            size: whole_size(&response).ok_or_else(no_size)?,
            ..meta(response.headers())
        })
    }

    pub(crate) async fn get(
        &self,
        url: &Url,
        range: &Range<u64>,
        if_match: Option<String>,
    ) -> Result<(Body, Meta), Failure> {
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let mut headers = vec![(RANGE, bytes)];
        headers.extend(if_match.map(|tag| (IF_MATCH, tag)));
        let response = self.follow(Method::GET, url, &headers).await;
        read_range(response.map_err(|(_, failure)| failure)?, range).await
    }

    /// Sends a request and follows redirects.
    async fn follow(
        &self,
        method: Method,
        url: &Url,
        headers: &[(HeaderName, String)],
    ) -> Result<Response, (Answer, Failure)> {
        let mut at = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let trusted = at.origin() == url.origin();
            let authorization = self.authorization.as_ref().filter(|_| trusted);
            let request = request(&method, &at, headers, authorization);
            let response = send(&self.transport, request).await?;
            let Some(next) = redirect(&response, &at) else {
                return Ok(response);
            };
            at = next;
        }
        let message = format!("redirects more than {MOST_REDIRECTS} times");
        Err((
            Answer::default(),
            Failure::io(std::io::ErrorKind::Other, message),
        ))
    }
}

/// A header that is never shown, of the setting `name`.
pub(crate) fn secret(value: &str, name: &str) -> Result<HeaderValue, Error> {
    let mut header = HeaderValue::from_str(value)
        .map_err(|_| Error::invalid(format!("{name} is not a header")))?;
    header.set_sensitive(true);
    Ok(header)
}

pub(crate) fn request(
    method: &Method,
    url: &Url,
    headers: &[(HeaderName, String)],
    authorization: Option<&HeaderValue>,
) -> Request {
    let mut request = Request::new(method.clone(), url.clone());
    for (name, value) in headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            request.headers_mut().insert(name.clone(), value);
        }
    }
    if let Some(value) = authorization {
        request.headers_mut().insert(AUTHORIZATION, value.clone());
    }
    request
}

/// Sends a request; responses that are errors become failures.
pub(crate) async fn send(
    transport: &Transport,
    request: Request,
) -> Result<Response, (Answer, Failure)> {
    let (result, answer) = observed(transport.send(request)).await;
    let response = match result {
        Ok(response) => response,
        Err(problem) => {
            let failure = Failure::of_sent(&problem, &answer);
            return Err((answer, failure));
        }
    };
    let is_redirect =
        response.status().is_redirection() && redirect(&response, response.url()).is_some();
    if !response.status().is_success() && !is_redirect {
        let failure = Failure::of_answer(&answer, answer.code.as_deref().unwrap_or_default());
        return Err((answer, failure));
    }
    Ok(response)
}

/// The URL that a response redirects to.
pub(crate) fn redirect(response: &Response, at: &Url) -> Option<Url> {
    if !response.status().is_redirection() {
        return None;
    }
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let url = at.join(location).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// The bytes of an answer to a request for a range.
pub(crate) async fn read_range(
    mut response: Response,
    range: &Range<u64>,
) -> Result<(Body, Meta), Failure> {
    let meta = meta(response.headers());
    let (size, from) = match response.status().as_u16() {
        206 => (
            total(response.headers()).ok_or_else(no_size)?,
            first(response.headers()),
        ),
        // The whole file, which is right if that was asked for.
        200 if length(response.headers()) == Some(range.end) && range.start == 0 => {
            (range.end, Some(0))
        }
        200 => {
            return Err(Failure::no_ranges());
        }
        status => {
            let message = format!("the server answers a range of bytes with {status}");
            return Err(Failure::io(std::io::ErrorKind::InvalidData, message));
        }
    };
    if from != Some(range.start) {
        return Err(Failure::again("the server sent another range"));
    }
    let mut body = Body::of(range);
    while let Some(chunk) = response.chunk().await.map_err(Failure::of_body)? {
        body.push(chunk);
    }
    Ok((body, Meta { size, ..meta }))
}

fn no_size() -> Failure {
    Failure::io(
        std::io::ErrorKind::Unsupported,
        "the server does not tell the file's size",
    )
}

pub(crate) fn text(headers: &HeaderMap, name: impl http::header::AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Size of the whole file, of an answer to a request for its first byte.
pub(crate) fn whole_size(response: &Response) -> Option<u64> {
    match response.status().as_u16() {
        206 => total(response.headers()),
        _ => length(response.headers()),
    }
}

fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH)?.parse().ok()
}

/// Size of the whole file, of `Content-Range: bytes 0-9/100`.
fn total(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_RANGE)?
        .rsplit('/')
        .next()?
        .parse()
        .ok()
}

/// Returns the first byte of the range that was sent.
fn first(headers: &HeaderMap) -> Option<u64> {
    let range = text(headers, CONTENT_RANGE)?.strip_prefix("bytes ")?;
    range.split('-').next()?.parse().ok()
}

/// Returns the state of the file without its size; without tags, dates are versions.
fn meta(headers: &HeaderMap) -> Meta {
    let version = text(headers, ETAG).or_else(|| text(headers, LAST_MODIFIED));
    Meta {
        size: 0,
        version: Meta::version_of(version.unwrap_or_default()),
        modified: 0,
    }
}
