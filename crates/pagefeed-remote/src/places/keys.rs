//! Keys that sign requests to Amazon's S3: asked for when they are needed, and renewed
//! before they expire. The control plane knows where they come from.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use object_store::CredentialProvider;
use object_store::aws::AwsCredential;
use pagefeed_core::error::{Error, Result};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::options::{FindKeys, Keys};
use crate::transport::failure::may_pass;
use crate::transport::refuse;

/// Keys are renewed so long before they expire.
const AHEAD: Duration = Duration::from_secs(300);
/// Least time between two requests for keys: a service may return the same ones.
const LEAST: Duration = Duration::from_secs(10);

/// The keys of a storage, shared by its buckets.
pub(crate) struct KeyRing {
    find: FindKeys,
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
            keys: Arc::new(AwsCredential {
                key_id: keys.id,
                secret_key: keys.secret,
                token: keys.token,
            }),
        }
    }

    /// Returns the keys, marked as a replacement.
    fn in_place(self) -> Self {
        Self {
            replaced: Some(Instant::now()),
            ..self
        }
    }

    fn is_valid(&self) -> bool {
        self.expires
            .is_none_or(|expires| expires > SystemTime::now())
    }
}

impl KeyRing {
    pub(crate) fn new(find: FindKeys) -> Self {
        Self {
            find,
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
        if before.replaced.is_some_and(|replaced| replaced > begun) {
            return true;
        }
        if looked.is_some_and(|last| last.elapsed() < LEAST) {
            return false;
        }
        match self.ask().await {
            Ok(keys) => {
                *looked = Some(Instant::now());
                let keys = CurrentKeys::new(keys).in_place();
                let is_other = *keys.keys != *before.keys;
                *current = Some(keys).filter(|_| is_other).or_else(|| current.take());
                is_other
            }
            Err(error) => may_pass(&error),
        }
    }

    async fn ask(&self) -> Result<Keys> {
        let find = Arc::clone(&self.find);
        let failed = |_| Error::internal("credentials could not be asked for");
        spawn_blocking(move || find()).await.map_err(failed)?
    }

    async fn keys(&self) -> Result<Arc<AwsCredential>> {
        // One asks, the others wait for it.
        let mut current = self.current.lock().await;
        if let Some(current) = current.as_ref()
            && current.due.is_none_or(|due| due > Instant::now())
        {
            return Ok(Arc::clone(&current.keys));
        }
        match (self.ask().await, current.as_mut()) {
            (Ok(asked), Some(_)) => *current = Some(CurrentKeys::new(asked).in_place()),
            (Ok(asked), None) => *current = Some(CurrentKeys::new(asked)),
            // What is left of the old ones is time to try again.
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
    use std::io::ErrorKind;
    use std::sync::atomic::{AtomicU64, Ordering};

    use pagefeed_core::error::Kind;

    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap().block_on(work)
    }

    /// Keys numbered by how often they were asked for, valid for some seconds.
    fn ring(seconds: u64) -> KeyRing {
        let asked = AtomicU64::new(0);
        KeyRing::new(Arc::new(move || {
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
        }))
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
                "a server that goes on refusing is believed"
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
            let ring = KeyRing::new(Arc::new(move || Ok(keys())));
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
