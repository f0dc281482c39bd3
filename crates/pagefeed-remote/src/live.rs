//! The state that all copies of a storage share: connections, and states of files.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::storage::Stamp;
use tokio::sync::Semaphore;
use twox_hash::{XxHash3_64, XxHash3_128};

use crate::address::{Address, Object, Provider, object_path, shown};
use crate::backends::bucket::{Bucket, Meta};
use crate::backends::hub::Hub;
use crate::backends::keys::KeyRing;
use crate::backends::opening;
use crate::backends::own;
use crate::backends::web::Web;
use crate::cache::PageCache;
use crate::counters::{Counters, add};
use crate::options::Options;
use crate::pace::gate::Gate;
use crate::pace::retry::{Limits, until_done};
use crate::transport::failure::Failure;
use crate::transport::{Connector, Transport};

/// Files whose states are asked for at a time.
const QUESTIONS: usize = 128;
/// A file that was listed is not asked about again for this long.
const LISTING_KEPT: Duration = Duration::from_secs(60);

/// A file in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// URL; on the hub with the commit.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// Text that changes whenever the file does; may be empty.
    pub version: String,
}

/// Connections and states of files, shared by all copies of a storage.
pub(crate) struct Live {
    pub(crate) options: Options,
    pub(crate) counters: Arc<Counters>,
    transport: Arc<Transport>,
    pub(crate) web: Web,
    pub(crate) hub: Hub,
    keys: Option<Arc<KeyRing>>,
    buckets: Mutex<HashMap<(Provider, String), Arc<Bucket>>>,
    /// States of files by digests of their URLs, and the time of each answer.
    metas: Mutex<HashMap<u128, (Meta, Instant)>>,
    pub(crate) gate: Gate,
    /// Limits requests without a body, which do not share the line.
    pub(crate) questions: Semaphore,
    pub(crate) cache: Option<PageCache>,
}

impl Live {
    pub(crate) fn new(options: Options) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let transport = Transport::new(&options, Arc::clone(&counters))?;
        let cache = options
            .cache
            .as_ref()
            .map(|(folder, bytes)| PageCache::new(folder, *bytes, Arc::clone(&counters)));
        Ok(Self {
            web: Web::new(Arc::clone(&transport), options.authorization.as_deref())?,
            hub: Hub::new(&options, Arc::clone(&transport))?,
            gate: Gate::new(options.max_in_flight, Arc::clone(&counters)),
            keys: options
                .keys
                .clone()
                .map(|find| Arc::new(KeyRing::new(find, Arc::clone(&transport)))),
            questions: Semaphore::new(QUESTIONS.min(options.max_in_flight)),
            cache: cache.transpose()?,
            counters,
            transport,
            buckets: Mutex::default(),
            metas: Mutex::default(),
            options,
        })
    }

    pub(crate) async fn head(&self, url: &str) -> Result<Meta> {
        if let Some(meta) = self.recently_known(url) {
            return Ok(meta);
        }
        let store = &self.options.store;
        let meta = match Address::parse(url)? {
            Address::Object(object) => {
                let (bucket, key) = self.bucket_and_key(&object)?;
                self.retried(|| bucket.head(&key)).await?
            }
            Address::Web(url) => self.retried(|| self.web.head(&url)).await?,
            Address::Hub(file) => self.retried(|| self.hub.head(&file)).await?,
            Address::Own(key) => self.retried(|| own::head(store, &key)).await?,
        };
        self.note(url, &meta);
        Ok(meta)
    }

    pub(crate) async fn retried<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let throttled = || self.gate.throttle();
        let limits = Limits {
            deadline: self.options.deadline,
            max_wait: self.options.max_wait,
        };
        until_done(limits, &self.counters, throttled, attempt).await
    }

    /// Adds the file to an error. If access is denied, also the names of secrets that did
    /// not travel to this process.
    pub(crate) fn named(&self, error: Error, url: &str) -> Error {
        let is_denied = error.kind() == Kind::Io(std::io::ErrorKind::PermissionDenied);
        let lost = &self.options.lost;
        let error = if is_denied && !lost.is_empty() {
            let message = format!(
                "{}; storage_options {} do not travel to other processes: set them in the \
                 environment",
                error.message(),
                lost.join(", ")
            );
            Error::new(error.kind(), message)
        } else {
            error
        };
        error.in_file(&shown(url))
    }

    /// The bucket of an object, and the object's key as object_store takes it.
    pub(crate) fn bucket_and_key(&self, object: &Object) -> Result<(Arc<Bucket>, Path)> {
        let key = object_path(&object.key)?;
        Ok((self.bucket(object.provider, &object.bucket)?, key))
    }

    /// Text that identifies the server of a file, where another one could have the same
    /// name.
    pub(crate) fn endpoint_of(&self, address: &Address) -> Result<String> {
        Ok(match address {
            Address::Object(object) => {
                let bucket = self.bucket(object.provider, &object.bucket)?;
                format!("{:?} {}", object.provider, bucket.endpoint)
            }
            Address::Hub(_) => self.options.hub_endpoint.clone(),
            Address::Web(_) => String::new(),
            Address::Own(_) => self.options.store_identity.clone(),
        })
    }

    pub(crate) fn bucket(&self, provider: Provider, name: &str) -> Result<Arc<Bucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider, name.to_string());
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let keys = self.keys.clone().filter(|_| provider == Provider::Amazon);
        let (options, transport) = (self.options.clone(), Arc::clone(&self.transport));
        let (owned, ring) = (name.to_string(), keys.clone());
        let open = move |region: Option<&str>| {
            let connector = Connector {
                transport: Arc::clone(&transport),
                is_near: false,
            };
            opening::open(&options, provider, &owned, connector, ring.clone(), region)
        };
        let bucket = Arc::new(Bucket::new(Box::new(open), keys)?);
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    /// Returns the state of a file if the server sent it in the last minute.
    pub(crate) fn recently_known(&self, url: &str) -> Option<Meta> {
        let noted = self
            .noted(url)
            .filter(|(_, since)| since.elapsed() < LISTING_KEPT);
        noted.map(|(meta, _)| meta)
    }

    /// The state in which a file was listed, for an index that is built now, however long that
    /// takes: reads name its tag, so that a file that changed since is not read.
    pub(crate) async fn listed(&self, url: &str) -> Result<Meta> {
        let noted = self.noted(url).map(|(meta, _)| meta);
        match noted.filter(|meta| meta.tag().is_some()) {
            Some(meta) => Ok(meta),
            None => self.head(url).await,
        }
    }

    pub(crate) fn noted(&self, url: &str) -> Option<(Meta, Instant)> {
        let metas = self.metas.lock().unwrap_or_else(PoisonError::into_inner);
        metas.get(&digest(url)).cloned()
    }

    /// Forgets the state of a file that was written or removed.
    pub(crate) fn forget(&self, url: &str) {
        let mut metas = self.metas.lock().unwrap_or_else(PoisonError::into_inner);
        metas.remove(&digest(url));
    }

    /// Keeps the state of a file. States without a version, as in some listings, are not kept.
    pub(crate) fn note(&self, url: &str, meta: &Meta) {
        if meta.version.is_empty() {
            return;
        }
        let mut metas = self.metas.lock().unwrap_or_else(PoisonError::into_inner);
        metas.insert(digest(url), (meta.clone(), Instant::now()));
    }
}

/// Digest of a URL: a million URLs would take a hundred megabytes.
fn digest(url: &str) -> u128 {
    XxHash3_128::oneshot(url.as_bytes())
}

/// Counts a request as under way until this is dropped, also at a deadline.
pub(crate) struct UnderWay<'a>(&'a Counters);

impl<'a> UnderWay<'a> {
    pub(crate) fn begin(counters: &'a Counters) -> Self {
        add(&counters.in_flight, 1);
        Self(counters)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn listed(url: String, meta: Meta) -> Listed {
    Listed {
        url,
        size: meta.size,
        version: meta.version,
    }
}

/// Returns a stamp with the version instead of time and inode.
pub(crate) fn stamp(meta: &Meta) -> Stamp {
    let (modified_ns, inode) = match meta.version.as_bytes() {
        [] => (meta.modified.saturating_mul(1_000_000_000), 0),
        version => (0, XxHash3_64::oneshot(version)),
    };
    Stamp {
        size: meta.size,
        modified_ns,
        inode,
        changed_ns: 0,
        sample: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "http://127.0.0.1:9/a.parquet";

    #[test]
    fn what_was_listed_long_ago_is_not_asked_for_by_a_build() {
        let live = Live::new(Options {
            deadline: Duration::from_millis(1),
            timeout: Duration::from_millis(1),
            max_in_flight: 4,
            hub_endpoint: "http://127.0.0.1:9".into(),
            ..Options::default()
        })
        .unwrap();
        let state = |version: &str| Meta {
            size: 7,
            version: version.into(),
            modified: 0,
        };
        let old = Instant::now() - 2 * LISTING_KEPT;
        let list = |version: &str| {
            let mut metas = live.metas.lock().unwrap();
            metas.insert(digest(FILE), (state(version), old));
        };
        let ask = |as_listed: bool| {
            let runtime = crate::runtime::handle().unwrap();
            let before = live.counters.counts().requests;
            let meta = runtime.block_on(async {
                if as_listed {
                    live.listed(FILE).await
                } else {
                    live.head(FILE).await
                }
            });
            (meta.ok(), live.counters.counts().requests - before)
        };
        list("tag");
        assert_eq!(ask(true), (Some(state("tag")), 0));
        assert_eq!(ask(false), (None, 1), "a file may have changed since");
        // Without a tag, a read cannot name the version that it asks for.
        list("Sun, 22 Nov 2026 03:26:39 GMT");
        assert_eq!(ask(true), (None, 1));
    }
}
