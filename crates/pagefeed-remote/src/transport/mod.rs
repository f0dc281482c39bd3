//! Sends requests: the only place that holds connections.

pub(crate) mod body;
pub(crate) mod failure;
mod lists;
pub(crate) mod pulse;
mod upload;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use std::{fmt, fs};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::DateTime;
use http::header::{
    AUTHORIZATION, AsHeaderName, CONTENT_LENGTH, CONTENT_RANGE, DATE, RANGE, RETRY_AFTER,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use pagefeed_core::error::{Error, Result};
use reqwest::Certificate;
use reqwest::redirect::Policy;

use crate::counters::{Counters, add};
use crate::options::Options;
use crate::transport::pulse::{Pulse, current};
use crate::transport::upload::Upload;

/// The server's last answer, before object_store interprets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    /// Whether anything was sent.
    pub(crate) sent: bool,
    pub(crate) status: Option<u16>,
    /// Time that the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// Why nothing was sent: it would be unsafe, or there are no credentials.
    pub(crate) refused: Option<Error>,
    /// The region where the bucket is.
    pub(crate) region: Option<String>,
    /// Error code of the hub.
    pub(crate) code: Option<String>,
    /// Seconds by which this machine's clock is ahead of the server's.
    pub(crate) seconds_ahead: i64,
    /// Whether a service of this machine was asked, for credentials.
    pub(crate) is_near: bool,
    pub(crate) asked: Asked,
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    Reading,
    Writing,
    Removing,
}

impl Asked {
    fn by(method: &Method, query: Option<&str>) -> Self {
        match (method, query) {
            (&Method::DELETE, _) | (&Method::POST, Some("delete")) => Self::Removing,
            (&Method::PUT | &Method::POST, _) => Self::Writing,
            _ => Self::Reading,
        }
    }

    /// Whether it changes stored objects.
    pub(crate) fn is_change(self) -> bool {
        !matches!(self, Self::Reading)
    }

    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Reading => "read",
            Self::Writing => "write",
            Self::Removing => "remove",
        }
    }
}

impl Answer {
    /// Whether GET may work where HEAD failed: some servers, proxies and signed URLs
    /// allow only GET, and an error of HEAD does not say what is wrong.
    pub(crate) fn may_refuse_head(&self) -> bool {
        matches!(self.status, Some(400 | 403 | 405 | 501))
    }

    fn of(status: u16, headers: &HeaderMap, sent: Self) -> Self {
        let word = |name: &str| {
            let value = text(headers, name)?;
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            let is_short = value.len() < 64 && value.bytes().all(is_word);
            is_short.then(|| value.to_string())
        };
        Self {
            status: Some(status),
            retry_after: retry_after(headers),
            region: word("x-amz-bucket-region"),
            code: word("x-error-code"),
            seconds_ahead: seconds_ahead(headers).unwrap_or_default(),
            ..sent
        }
    }
}

tokio::task_local! {
    static ANSWER: Arc<Mutex<Answer>>;
}

/// Runs `work`; returns its result and the last answer of the server in it.
pub(crate) async fn observed<T>(work: impl Future<Output = T>) -> (T, Answer) {
    let answer = Arc::new(Mutex::new(Answer::default()));
    let result = ANSWER.scope(Arc::clone(&answer), work).await;
    let answer = answer
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    (result, answer)
}

/// Records why nothing is sent, which errors of object_store would not say.
pub(crate) fn refuse(why: &Error) {
    observe(|answer| answer.refused = Some(why.clone()));
}

fn observe(change: impl FnOnce(&mut Answer)) {
    let note = |answer: &Arc<Mutex<Answer>>| {
        change(&mut answer.lock().unwrap_or_else(PoisonError::into_inner));
    };
    // Outside of `observed` no caller needs the answer.
    let _ = ANSWER.try_with(note);
}

/// The client of a storage: its connections, and whether secrets may go over http.
pub(crate) struct Transport {
    client: reqwest::Client,
    /// For services of this machine, which no proxy reaches and which answer at once.
    near: reqwest::Client,
    /// For requests with a long body, which may take any time while it moves.
    uploads: reqwest::Client,
    /// Silence after which a request is sent again.
    timeout: Duration,
    counters: Arc<Counters>,
    /// Credentials may be sent unencrypted.
    allow_http: bool,
}

/// Services that give credentials to what runs on a machine of a provider.
const HOSTS_NEAR: [&str; 3] = ["169.254.169.254", "metadata.google.internal", "metadata"];
/// Silence after which a service close by counts as absent.
const NEAR: Duration = Duration::from_secs(1);

/// Why an upload was ended.
pub(super) const STUCK: &str = "an upload stands still";
/// Bytes of a body from which on it is seen how they leave.
const LONG_BODY: usize = 128 << 10;

/// Why a request was not sent.
const UNENCRYPTED: &str = "credentials would be sent unencrypted over http://: use https://, or say \
     storage_options={\"allow_http\": \"true\"} (AWS_ALLOW_HTTP=true)";

impl Transport {
    pub(crate) fn new(options: &Options, counters: Arc<Counters>) -> Result<Arc<Self>> {
        // Another library of the process may have chosen already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let trusted = match &options.ca_bundle {
            Some(path) => certificates(path)?,
            None => Vec::new(),
        };
        let client = || {
            reqwest::Client::builder()
                .tls_certs_merge(trusted.iter().cloned())
                .connect_timeout(Duration::from_secs(5).min(options.deadline))
                .pool_idle_timeout(Duration::from_secs(60))
                .redirect(Policy::none())
                .referer(false)
                .user_agent(concat!("pagefeed/", env!("CARGO_PKG_VERSION")))
        };
        let near = client().no_proxy().connect_timeout(NEAR).read_timeout(NEAR);
        let built = |builder: reqwest::ClientBuilder| {
            let failed = |error| Error::limit(format!("no client for remote reads: {error}"));
            builder.build().map_err(failed)
        };
        Ok(Arc::new(Self {
            client: built(client().read_timeout(options.timeout))?,
            near: built(near)?,
            uploads: built(client())?,
            timeout: options.timeout,
            counters,
            allow_http: options.allow_http,
        }))
    }

    /// Sends a request.
    pub(crate) async fn send(&self, request: reqwest::Request) -> Result<reqwest::Response, Sent> {
        self.send_if(request, Bytes::new(), self.allow_http, false)
            .await
    }

    async fn send_if(
        &self,
        mut request: reqwest::Request,
        body: Bytes,
        allow_http: bool,
        is_near: bool,
    ) -> Result<reqwest::Response, Sent> {
        let carries_secret = request.headers().contains_key(AUTHORIZATION);
        if request.url().scheme() != "https" && carries_secret && !allow_http {
            refuse(&Error::invalid(UNENCRYPTED));
            return Err(Sent::Refused);
        }
        let is_host_near = |host| HOSTS_NEAR.contains(&host);
        let is_near = is_near || request.url().host_str().is_some_and(is_host_near);
        let begun = Answer {
            sent: true,
            is_near,
            asked: Asked::by(request.method(), request.url().query()),
            ..Answer::default()
        };
        observe(|answer| *answer = begun.clone());
        add(&self.counters.requests, 1);
        let client = if is_near { &self.near } else { &self.client };
        let sent = if body.len() > LONG_BODY {
            self.upload(request, body).await?
        } else {
            if !body.is_empty() {
                *request.body_mut() = Some(body.into());
            }
            client.execute(request).await
        };
        let response = sent.map_err(|error| Sent::Failed(error.without_url()))?;
        let status = response.status().as_u16();
        observe(|answer| *answer = Answer::of(status, response.headers(), begun));
        Ok(response)
    }

    /// Sends a request with a long body, until none of it has left for a while.
    async fn upload(
        &self,
        mut request: reqwest::Request,
        body: Bytes,
    ) -> Result<reqwest::Result<reqwest::Response>, Sent> {
        let pulse = Pulse::new(Arc::clone(&self.counters));
        let attempts = current();
        let patience = attempts
            .as_ref()
            .map_or(self.timeout, |all| all.patience(self.timeout));
        let pause = attempts.as_ref().map(|all| all.pause()).unwrap_or_default();
        let body = Upload::new(body, Arc::clone(&pulse), pause.min(patience / 2));
        *request.body_mut() = Some(reqwest::Body::wrap(body));
        let sent = async { Ok::<_, Infallible>(self.uploads.execute(request).await) };
        match pulse.watch(patience, sent).await {
            Some(Ok(sent)) => {
                if sent.as_ref().is_err_and(|error| !error.is_connect()) {
                    attempts.iter().for_each(|all| all.note_cut());
                }
                Ok(sent)
            }
            None => {
                attempts.iter().for_each(|all| all.note_stuck());
                Err(Sent::Stuck)
            }
        }
    }
}

/// Reads the certificates in a file, to trust in addition to the system's.
fn certificates(path: &str) -> Result<Vec<Certificate>> {
    let wrong = |why: &dyn fmt::Display| {
        Error::invalid(format!(
            "ca_bundle (AWS_CA_BUNDLE) is {path:?}: {why}; it must be a file of certificates, as \
             PEM"
        ))
    };
    let pem = fs::read(path).map_err(|error| wrong(&error))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&"it has no certificate"));
    }
    Ok(certificates)
}

/// Why a request has no response.
pub(crate) enum Sent {
    Refused,
    /// None of its body has left for too long, and there is no answer.
    Stuck,
    Failed(reqwest::Error),
}

/// Returns the wait in `Retry-After`, in seconds or as a date by the server's clock, or
/// in the hub's `RateLimit: "name";r=0;t=55` of a used-up window.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    if let Some(limit) = text(headers, "ratelimit") {
        let parameter = |name| {
            limit
                .split(';')
                .find_map(|pair| pair.trim().strip_prefix(name))
        };
        if let (Some("0"), Some(seconds)) = (parameter("r="), parameter("t=")) {
            return seconds.parse().ok().map(Duration::from_secs);
        }
    }
    let after = text(headers, RETRY_AFTER)?.trim();
    let seconds = after.parse().ok().or_else(|| {
        let until = DateTime::parse_from_rfc2822(after).ok()?.timestamp();
        let now = since_1970()? - seconds_ahead(headers).unwrap_or_default();
        Some(u64::try_from(until - now).unwrap_or_default())
    });
    seconds.map(Duration::from_secs)
}

/// The text of a header, if it is one.
fn text(headers: &HeaderMap, name: impl AsHeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns how far this machine's clock is ahead of a server's.
fn seconds_ahead(headers: &HeaderMap) -> Option<i64> {
    let date = DateTime::parse_from_rfc2822(text(headers, DATE)?).ok()?;
    Some(since_1970()? - date.timestamp())
}

/// Seconds, by this machine's clock.
fn since_1970() -> Option<i64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.ok()?.as_secs()).ok()
}

impl fmt::Debug for Transport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transport")
    }
}

/// Disables retries of the library; `retry` counts attempts.
pub(crate) fn once() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

/// Makes clients of object_store send through a transport.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) transport: Arc<Transport>,
    /// Whether it leads to a service of this machine, at any address.
    pub(crate) is_near: bool,
}

#[derive(Debug)]
struct Sender {
    transport: Arc<Transport>,
    /// Whether http is allowed: for addresses inside a machine that gives credentials.
    allow_http: bool,
    is_near: bool,
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        Ok(HttpClient::new(Sender {
            transport: Arc::clone(&self.transport),
            allow_http: self.transport.allow_http || allowed.as_deref() == Some("true"),
            is_near: self.is_near,
        }))
    }
}

#[async_trait]
impl HttpService for Sender {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        let is_anonymous = |value: &HeaderValue| value.as_bytes().trim_ascii_end() == b"Bearer";
        if parts.headers.get(AUTHORIZATION).is_some_and(is_anonymous) {
            parts.headers.remove(AUTHORIZATION);
        }
        let is_list = lists::is_list(parts.uri.query());
        let range = parts.headers.get(RANGE).cloned();
        let url = parts.uri.to_string().parse();
        let url = url.map_err(|error: url::ParseError| unknown(error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        let body = body.collect().await?.to_bytes();
        let sent = self
            .transport
            .send_if(request, body, self.allow_http, self.is_near);
        let response = sent.await.map_err(|problem| match problem {
            Sent::Refused => unknown(std::io::Error::other(UNENCRYPTED)),
            Sent::Stuck => unknown(std::io::Error::other(STUCK)),
            Sent::Failed(error) => unknown(error),
        })?;
        if is_list && response.status().is_success() {
            let status = response.status();
            let body = response.bytes().await;
            let body = body.map_err(|error| unknown(error.without_url()))?;
            let (body, num_skipped) = lists::readable(body).map_err(|error| {
                refuse(&error);
                unknown(error)
            })?;
            add(&self.transport.counters.names_skipped, num_skipped);
            let mut answer = HttpResponse::new(body.into());
            *answer.status_mut() = status;
            return Ok(answer);
        }
        let (mut parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        if parts.status == StatusCode::OK
            && range.is_some_and(|range| is_answer(&range, &mut parts.headers))
        {
            parts.status = StatusCode::PARTIAL_CONTENT;
        }
        let body = body.map_err(|error| unknown(error.without_url()));
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Whether a whole object is the answer to a range, since all of it was asked for. Stores
/// may say so by status 200, which object_store takes for a refusal of ranges; it wants to
/// read in the headers which bytes came.
fn is_answer(range: &HeaderValue, headers: &mut HeaderMap) -> bool {
    if headers.contains_key(CONTENT_RANGE) {
        return true;
    }
    let size = text(headers, CONTENT_LENGTH).and_then(|size| size.parse::<u64>().ok());
    let end = range
        .to_str()
        .ok()
        .and_then(|range| range.strip_prefix("bytes=0-"));
    let is_whole =
        |size: &u64| end.is_some_and(|end| end.parse::<u64>().is_ok_and(|end| end + 1 >= *size));
    let Some(size) = size.filter(|size| *size > 0).filter(is_whole) else {
        return false;
    };
    let all = HeaderValue::try_from(format!("bytes 0-{}/{size}", size - 1));
    all.is_ok_and(|all| headers.insert(CONTENT_RANGE, all).is_none())
}

fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}
