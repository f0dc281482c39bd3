//! Files of the Hugging Face hub: their names lead to signed URLs, which are kept.
//!
//! The token goes to the hub alone. A commit never changes, so neither do its files; those of
//! a bucket do.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{LINK, RANGE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pagefeed_core::error::{Error, Result};
use reqwest::Response;
use url::Url;

use crate::address::{HubFile, check_web_address};
use crate::backends::bucket::Meta;
use crate::backends::web::{read_range, redirect, request, secret, send, text, whole_size};
use crate::options::Options;
use crate::transport::body::Body;
use crate::transport::failure::Failure;
use crate::transport::{Answer, Transport};

/// Signed URLs are valid for about an hour. They are renewed at this age.
const KEPT: Duration = Duration::from_secs(20 * 60);
/// Redirects within the hub, as of renamed datasets.
const MOST_REDIRECTS: usize = 5;

pub(crate) struct Hub {
    transport: Arc<Transport>,
    endpoint: Url,
    token: Option<HeaderValue>,
    resolved: Mutex<HashMap<Url, Resolved>>,
}

/// Present location of the bytes of a file.
#[derive(Clone)]
struct Resolved {
    /// Signed, or the hub's own for small files.
    location: Url,
    meta: Meta,
    /// ETag of the bytes at another server, once some were read.
    tag: Option<String>,
    since: Instant,
}

impl Hub {
    pub(crate) fn new(options: &Options, transport: Arc<Transport>) -> Result<Self> {
        let endpoint = &options.hub_endpoint;
        check_web_address("hf_endpoint", Some(endpoint))?;
        let endpoint = Url::parse(endpoint)
            .map_err(|problem| Error::invalid(format!("hf_endpoint {endpoint:?}: {problem}")))?;
        let token = options.hub_token.as_ref();
        let token =
            token.map(|token| secret(&format!("Bearer {token}"), "the hub's token (HF_TOKEN)"));
        Ok(Self {
            transport,
            endpoint,
            token: token.transpose()?,
            resolved: Mutex::default(),
        })
    }

    /// Returns the hub's answer at a URL, and the URL of the next page.
    pub(crate) async fn answer(&self, url: &str) -> Result<(Bytes, Option<String>), Failure> {
        let url = Url::parse(url).map_err(|_| unexpected("no web address"))?;
        let asked = self.ask(Method::GET, url, &[]).await;
        let (at, response) = asked.map_err(|(_, failure)| failure)?;
        if !response.status().is_success() {
            return Err(unexpected("a list that continues elsewhere"));
        }
        let next = match next_page(&response) {
            Some(next) => Some(self.own(&at, next)?),
            None => None,
        };
        let body = response.bytes().await;
        let body = body.map_err(|_| Failure::again("the hub's answer broke off"))?;
        Ok((body, next))
    }

    /// Returns the URL of the next page, which may be relative. It must belong to the
    /// hub, since the token is sent to it.
    fn own(&self, at: &Url, next: &str) -> Result<String, Failure> {
        let url = at.join(next).map_err(|_| unexpected("no web address"))?;
        if url.origin() != self.endpoint.origin() {
            return Err(unexpected("a list that continues at another server"));
        }
        Ok(url.to_string())
    }

    pub(crate) async fn head(&self, file: &HubFile) -> Result<Meta, Failure> {
        if file.commit.is_empty() {
            let name = self.name(file)?;
            self.lock().remove(&name);
        }
        Ok(self.resolve(file).await?.1.meta)
    }

    pub(crate) async fn get(
        &self,
        file: &HubFile,
        range: &Range<u64>,
    ) -> Result<(Body, Meta), Failure> {
        let (name, resolved) = self.resolve(file).await?;
        let bytes = format!("bytes={}-{}", range.start, range.end - 1);
        let response = match self.follow(&resolved.location, &[(RANGE, bytes)]).await {
            Ok(response) => response,
            // Signatures expire; a new one may be had until the deadline.
            Err((answer, _))
                if matches!(answer.status, Some(400 | 401 | 403)) && resolved.location != name =>
            {
                self.lock().remove(&name);
                return Err(Failure::again(
                    "the signed URL of the file is not valid any more",
                ));
            }
            Err((_, failure)) => return Err(failure),
        };
        let own = version(response.headers(), file).filter(|_| resolved.location == name);
        let (body, read) = read_range(response, range).await?;
        if file.commit.is_empty() && own.is_none() && self.is_another(&name, &read.version) {
            self.lock().remove(&name);
            return Err(Failure::again("the file has another ETag than before"));
        }
        if own
            .as_ref()
            .is_some_and(|own| *own != resolved.meta.version)
        {
            self.lock().remove(&name);
        }
        let meta = Meta {
            size: read.size,
            version: own.unwrap_or(resolved.meta.version),
            modified: 0,
        };
        Ok((body, meta))
    }

    /// Whether the bytes at another server have another ETag than at the first read. Then the
    /// hub says what the file is now.
    fn is_another(&self, name: &Url, tag: &str) -> bool {
        let mut resolved = self.lock();
        let Some(resolved) = resolved.get_mut(name) else {
            return false;
        };
        resolved.tag.get_or_insert_with(|| tag.to_string()) != tag
    }

    /// Asks for bytes where they are, and where that redirects to.
    async fn follow(
        &self,
        location: &Url,
        headers: &[(HeaderName, String)],
    ) -> Result<Response, (Answer, Failure)> {
        let mut at = location.clone();
        for _ in 0..=MOST_REDIRECTS {
            let request = request(&Method::GET, &at, headers, self.token_for(&at));
            let response = send(&self.transport, request).await?;
            match redirect(&response, &at) {
                None => return Ok(response),
                Some(next) => at = next,
            }
        }
        Err((Answer::default(), unexpected("redirects without end")))
    }

    /// The hub's URL of a file, and where its bytes are.
    async fn resolve(&self, file: &HubFile) -> Result<(Url, Resolved), Failure> {
        let name = self.name(file)?;
        let before = self.lock().get(&name).cloned();
        if let Some(before) = before.filter(|before| before.since.elapsed() < KEPT) {
            return Ok((name, before));
        }
        let first = [(RANGE, "bytes=0-0".to_string())];
        let asked = match self.ask(Method::HEAD, name.clone(), &[]).await {
            Err((answer, failure)) if answer.may_refuse_head() && answer.code.is_none() => {
                let again = self.ask(Method::GET, name.clone(), &first).await;
                again.map_err(|_| failure)
            }
            asked => asked.map_err(|(_, failure)| failure),
        };
        let (location, response) = asked?;
        let headers = response.headers();
        let size = text(headers, "x-linked-size").and_then(|size| size.parse().ok());
        let is_here = response.status().is_success();
        let size = size.or_else(|| whole_size(&response).filter(|_| is_here));
        let resolved = Resolved {
            meta: Meta {
                size: size.ok_or_else(|| unexpected("it lacks the size of the file"))?,
                version: version(headers, file).unwrap_or_default(),
                modified: 0,
            },
            tag: None,
            location,
            since: Instant::now(),
        };
        self.lock().insert(name.clone(), resolved.clone());
        Ok((name, resolved))
    }

    /// Asks the hub and follows its redirects. Returns the last URL and response; a URL
    /// of another server is returned without a request.
    async fn ask(
        &self,
        method: Method,
        url: Url,
        headers: &[(HeaderName, String)],
    ) -> Result<(Url, Response), (Answer, Failure)> {
        let mut at = url;
        for _ in 0..=MOST_REDIRECTS {
            let request = request(&method, &at, headers, self.token_for(&at));
            let response = send(&self.transport, request)
                .await
                .map_err(|(answer, failure)| {
                    let explained = self.explained(answer.code.as_deref().unwrap_or_default(), &at);
                    (answer, explained.unwrap_or(failure))
                })?;
            match redirect(&response, &at) {
                None => return Ok((at, response)),
                Some(next) if next.origin() != self.endpoint.origin() => {
                    return Ok((next, response));
                }
                Some(next) => at = next,
            }
        }
        Err((Answer::default(), unexpected("redirects without end")))
    }

    /// Returns the error that the hub's error code means.
    fn explained(&self, code: &str, at: &Url) -> Option<Failure> {
        let parts: Vec<_> = at.path().split('/').collect();
        let is_kind = |step: &&str| matches!(*step, "datasets" | "buckets");
        let kind = parts.iter().position(is_kind)?;
        let what = parts[kind].trim_end_matches('s');
        let page = parts.get(kind..kind + 3)?.join("/");
        let page = self.endpoint.join(&page).ok()?;
        let token = match self.token {
            Some(_) => "the token (HF_TOKEN) gives no access",
            None => "no token was sent: set HF_TOKEN, or run `hf auth login`",
        };
        let (kind, what) = match code {
            "GatedRepo" => (
                ErrorKind::PermissionDenied,
                format!("the {what} is gated: ask for access at {page}; {token}"),
            ),
            // The hub gives one answer for both, to keep private ones secret.
            "RepoNotFound" => (
                ErrorKind::NotFound,
                format!("the {what} does not exist, or is private and {token}; see {page}"),
            ),
            "RevisionNotFound" => (
                ErrorKind::NotFound,
                format!("does not exist in this revision; {page} lists branches and tags"),
            ),
            _ => return None,
        };
        Some(Failure::io(kind, what))
    }

    /// The token, if the URL is the hub's.
    fn token_for(&self, url: &Url) -> Option<&HeaderValue> {
        let trusted = url.origin() == self.endpoint.origin();
        self.token.as_ref().filter(|_| trusted)
    }

    /// The hub's URL of a file.
    fn name(&self, file: &HubFile) -> Result<Url, Failure> {
        let commit = std::iter::once(&*file.commit);
        let names: Vec<_> = commit.chain(file.path.split('/')).collect();
        self.url(&[&file.place, "resolve"], &names)
    }

    /// Returns a URL of the hub: folders unchanged, names with all but letters encoded.
    fn url(&self, folders: &[&str], names: &[&str]) -> Result<Url, Failure> {
        let mut url = self.endpoint.clone();
        {
            let mut path = url
                .path_segments_mut()
                .map_err(|()| unexpected("no web address"))?;
            path.pop_if_empty();
            let folders = folders.iter().flat_map(|folder| folder.split('/'));
            path.extend(folders.chain(names.iter().copied().filter(|name| !name.is_empty())));
        }
        Ok(url)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Url, Resolved>> {
        self.resolved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The version of a file. Listings of buckets have the hash of Xet alone.
fn version(headers: &HeaderMap, file: &HubFile) -> Option<String> {
    let names: &[&str] = match &*file.commit {
        "" => &["x-xet-hash", "x-linked-etag", "etag"],
        _ => &["x-linked-etag", "etag"],
    };
    let found = names.iter().find_map(|name| text(headers, *name));
    found.map(Meta::version_of)
}

fn unexpected(what: &str) -> Failure {
    Failure::io(
        ErrorKind::InvalidData,
        format!("the hub's answer is not as expected: {what}"),
    )
}

/// The URL of `Link: <url>; rel="next"`.
fn next_page(response: &Response) -> Option<&str> {
    let link = text(response.headers(), LINK)?;
    let next = link.split(',').find(|link| link.contains("rel=\"next\""))?;
    Some(next.split_once('<')?.1.split_once('>')?.0)
}
