//! Keys that sign requests to Amazon's S3: asked for when they are needed, and renewed
//! before they expire. The control plane knows where they come from.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use pagefeed_core::error::{Error, Kind, Result};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::options::{FindKeys, Keys, Service, Source};
use crate::transport::failure::{cause, error_code, may_pass};
use crate::transport::{Answer, Connector, Transport, observed, once, refuse};

/// Keys are renewed so long before they expire.
const AHEAD: Duration = Duration::from_secs(300);
/// Least time between two requests for keys: a service may return the same ones.
const LEAST: Duration = Duration::from_secs(10);

/// The keys of a storage, shared by its buckets.
pub(crate) struct KeyRing {
    find: FindKeys,
    transport: Arc<Transport>,
    current: Mutex<Option<CurrentKeys>>,
    /// When a server last refused the keys, and others were looked for.
    looked: Mutex<Option<Instant>>,
}

#[derive(Clone)]
struct CurrentKeys {
    keys: Arc<AwsCredential>,
    /// Time at which they replaced others; `None` for the first keys.
    replaced: Option<Instant>,
    /// When others are to be asked for.
    due: Option<Instant>,
    expires: Option<SystemTime>,
    service: Option<AskedService>,
}

impl CurrentKeys {
    fn new(keys: Keys) -> Self {
        let now = Instant::now();
        let left = |expires: SystemTime| {
            let left = expires.duration_since(SystemTime::now());
            left.unwrap_or_default().saturating_sub(AHEAD).max(LEAST)
        };
        Self {
            replaced: None,
            due: keys.expires.map(|expires| now + left(expires)),
            expires: keys.expires,
            service: None,
            keys: Arc::new(AwsCredential {
                key_id: keys.id,
                secret_key: keys.secret,
                token: keys.token,
            }),
        }
    }

    /// Keys of a service. It is asked each time, since it keeps them as long as they are
    /// good; if it fails, they are used until a server refuses them.
    async fn of_service(service: AskedService) -> Result<Self> {
        Ok(Self {
            keys: service.keys().await?,
            replaced: None,
            due: Some(Instant::now()),
            expires: None,
            service: Some(service),
        })
    }

    /// Returns the keys, marked as a replacement if they are others.
    fn in_place_of(self, old: &Self) -> Self {
        let is_other = *self.keys != *old.keys;
        Self {
            replaced: if is_other {
                Some(Instant::now())
            } else {
                old.replaced
            },
            ..self
        }
    }

    fn is_valid(&self) -> bool {
        self.expires
            .is_none_or(|expires| expires > SystemTime::now())
    }
}

/// A service, and the client that asks it.
#[derive(Clone)]
struct AskedService {
    service: Arc<Service>,
    provider: AwsCredentialProvider,
}

impl AskedService {
    fn new(service: Service, transport: &Arc<Transport>) -> Result<Self> {
        let failed = |error: object_store::Error| Error::invalid(cause(&error));
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name("none")
            .with_retry(once())
            .with_http_connector(Connector {
                transport: Arc::clone(transport),
                is_near: service.is_near,
            });
        for (name, value) in &service.settings {
            let key: AmazonS3ConfigKey = name.parse().map_err(failed)?;
            builder = builder.with_config(key, value);
        }
        let provider = Arc::clone(builder.build().map_err(failed)?.credentials());
        let service = Arc::new(service);
        Ok(Self { service, provider })
    }

    async fn keys(&self) -> Result<Arc<AwsCredential>> {
        let (asked, answer) = observed(self.provider.get_credential()).await;
        asked.map_err(|error| self.service.failed(&error, &answer))
    }
}

impl Service {
    /// The error of a service that gives no keys: without texts of its answer, which may be
    /// secret.
    fn failed(&self, error: &object_store::Error, answer: &Answer) -> Error {
        let source = &self.source;
        let problem = match answer.status {
            Some(status) if status >= 300 => {
                let shown = format!("answers {status} {}", error_code(&error.to_string()));
                shown.trim_end().to_string()
            }
            Some(_) => "has no credentials in its answer".to_string(),
            None if answer.sent => format!("does not answer ({})", cause(error)),
            None => format!("cannot be asked ({})", cause(error)),
        };
        let (kind, message) = match (&self.looked_at, answer.status) {
            (Some(looked_at), None | Some(403 | 404)) => (
                ErrorKind::PermissionDenied,
                format!(
                    "no credentials were found: {looked_at}; {source} {problem}. Set up one of \
                     these, or for a public bucket give storage_options={{\"skip_signature\": \
                     True}} (AWS_SKIP_SIGNATURE=true)"
                ),
            ),
            (_, None) if !answer.sent => (
                ErrorKind::PermissionDenied,
                format!("credentials by {source}: it {problem}"),
            ),
            (_, None | Some(429 | 500..)) => (
                ErrorKind::TimedOut,
                format!("credentials by {source}: it {problem}"),
            ),
            (_, Some(_)) => (
                ErrorKind::PermissionDenied,
                format!(
                    "credentials by {source}: it {problem}: check its settings, and that it gives \
                     credentials to this process"
                ),
            ),
        };
        Error::new(Kind::Io(kind), message)
    }
}

impl KeyRing {
    pub(crate) fn new(find: FindKeys, transport: Arc<Transport>) -> Self {
        Self {
            find,
            transport,
            current: Mutex::default(),
            looked: Mutex::default(),
        }
    }

    /// Whether there are newer keys than those of a refused request: found since it
    /// began, or now, or expected soon.
    pub(crate) async fn replaced_since(&self, begun: Instant) -> bool {
        let mut looked = self.looked.lock().await;
        let mut current = self.current.lock().await;
        let Some(before) = current.as_ref() else {
            return false; // None were sent.
        };
        let is_replaced = |keys: &CurrentKeys| keys.replaced.is_some_and(|since| since > begun);
        if is_replaced(before) {
            return true;
        }
        if looked.is_some_and(|last| last.elapsed() < LEAST) {
            return false;
        }
        match self.ask().await {
            Ok(keys) => {
                *looked = Some(Instant::now());
                let keys = keys.in_place_of(before);
                let is_other = is_replaced(&keys);
                *current = Some(keys);
                is_other
            }
            Err(error) => may_pass(&error),
        }
    }

    /// Looks for keys, without the former ones.
    async fn ask(&self) -> Result<CurrentKeys> {
        let find = Arc::clone(&self.find);
        let failed = |_| Error::internal("credentials could not be asked for");
        match spawn_blocking(move || find()).await.map_err(failed)?? {
            Source::Keys(keys) => Ok(CurrentKeys::new(keys)),
            Source::Service(service) => {
                CurrentKeys::of_service(AskedService::new(service, &self.transport)?).await
            }
        }
    }

    async fn keys(&self) -> Result<Arc<AwsCredential>> {
        // One asks, the others wait for it.
        let mut current = self.current.lock().await;
        if let Some(current) = current.as_ref()
            && current.due.is_none_or(|due| due > Instant::now())
        {
            return Ok(Arc::clone(&current.keys));
        }
        let asked = match current.as_ref().and_then(|keys| keys.service.clone()) {
            Some(service) => CurrentKeys::of_service(service).await,
            None => self.ask().await,
        };
        match (asked, current.as_mut()) {
            (Ok(asked), Some(old)) => *old = asked.in_place_of(old),
            (Ok(asked), None) => *current = Some(asked),
            // While the old keys last, there is time to try again.
            (Err(_), Some(old)) if old.is_valid() => old.due = Some(Instant::now() + LEAST),
            (Err(error), _) => return Err(error),
        }
        let keys = current.as_ref().map(|current| Arc::clone(&current.keys));
        keys.ok_or_else(|| Error::internal("credentials were lost"))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyRing")
    }
}

#[async_trait]
impl CredentialProvider for KeyRing {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.keys().await.map_err(|error| {
            refuse(&error);
            object_store::Error::Generic {
                store: "S3",
                source: error.message().to_string().into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::options::Options;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(work)
    }

    fn made(find: impl Fn() -> Result<Keys> + Send + Sync + 'static) -> KeyRing {
        let transport = Transport::new(&Options::default(), Arc::default()).unwrap();
        KeyRing::new(Arc::new(move || find().map(Source::Keys)), transport)
    }

    /// Keys numbered by how often they were asked for, valid for some seconds.
    fn ring(seconds: u64) -> KeyRing {
        let asked = AtomicU64::new(0);
        made(move || {
            let call = asked.fetch_add(1, Ordering::Relaxed);
            if call == 1 {
                return Err(Error::new(Kind::Io(ErrorKind::TimedOut), "later"));
            }
            Ok(Keys {
                id: call.to_string(),
                secret: "hidden".into(),
                token: None,
                expires: Some(SystemTime::now() + Duration::from_secs(seconds)),
            })
        })
    }

    #[test]
    fn keys_are_asked_for_once_and_renewed_ahead_of_their_end() {
        run(async {
            let ring = ring(3600);
            for _ in 0..3 {
                assert_eq!(ring.keys().await.unwrap().key_id, "0");
            }
            let due = |ring: &KeyRing| {
                let current = ring.current.try_lock().unwrap();
                current.as_ref().unwrap().due.unwrap() - Instant::now()
            };
            assert!((3290..=3300).contains(&due(&ring).as_secs()));
            let overdue = || {
                ring.current.try_lock().unwrap().as_mut().unwrap().due = Some(Instant::now());
            };
            overdue();
            assert_eq!(ring.keys().await.unwrap().key_id, "0", "the service fails");
            overdue();
            assert_eq!(ring.keys().await.unwrap().key_id, "2");
            let begun = Instant::now();
            assert!(ring.replaced_since(begun).await, "a server refuses them");
            assert_eq!(ring.keys().await.unwrap().key_id, "3");
            assert!(ring.replaced_since(begun).await, "others were found since");
            assert!(
                !ring.replaced_since(Instant::now()).await,
                "a server that keeps refusing is believed"
            );
            assert_eq!(ring.keys().await.unwrap().key_id, "3");
            assert!(!format!("{ring:?}").contains("hidden"));
        });
    }

    #[test]
    fn the_first_keys_are_not_tried_twice() {
        run(async {
            let keys = || Keys {
                id: "a".into(),
                secret: "hidden".into(),
                token: None,
                expires: None,
            };
            let ring = made(move || Ok(keys()));
            let begun = Instant::now(); // A request asks for keys after it began.
            assert_eq!(ring.keys().await.unwrap().key_id, "a");
            assert!(!ring.replaced_since(begun).await);
        });
    }

    #[test]
    fn keys_of_a_short_life_are_not_asked_for_all_the_time() {
        run(async {
            let ring = ring(60);
            assert_eq!(ring.keys().await.unwrap().key_id, "0");
            assert_eq!(ring.keys().await.unwrap().key_id, "0");
        });
    }
}
