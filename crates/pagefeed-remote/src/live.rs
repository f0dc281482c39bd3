//! What a storage has at work: connections, and what is known by now.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::store::Stamp;
use tokio::sync::Semaphore;
use twox_hash::XxHash3_64;

use crate::cache::PageCache;
use crate::counters::{Counters, Counts, add};
use crate::options::Options;
use crate::pace::gate::Gate;
use crate::pace::retry::until_done;
use crate::places::address::{Address, Provider, shown};
use crate::places::bucket::{Bucket, Meta};
use crate::places::hub::Hub;
use crate::places::web::Web;
use crate::remote::Listed;
use crate::transport::Transport;
use crate::transport::failure::Failure;

/// Files whose state is asked for at a time.
const QUESTIONS: usize = 128;
/// What is listed is not asked for again so soon.
const LISTING_KEPT: Duration = Duration::from_secs(60);

/// Connections and what is known by now, shared by all uses of a storage.
pub(crate) struct Live {
    options: Options,
    pub(crate) counters: Arc<Counters>,
    transport: Arc<Transport>,
    pub(crate) web: Web,
    pub(crate) hub: Hub,
    buckets: Mutex<HashMap<(Provider, String), Arc<Bucket>>>,
    /// What objects were when last heard of.
    known: Mutex<HashMap<String, (Meta, Instant)>>,
    pub(crate) gate: Gate,
    /// Questions without an answer of any length, which share no line.
    pub(crate) questions: Semaphore,
    pub(crate) cache: Option<PageCache>,
}

impl Live {
    pub(crate) fn new(options: Options) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let transport = Transport::new(&options, Arc::clone(&counters))?;
        Ok(Self {
            web: Web::new(Arc::clone(&transport), options.authorization())?,
            hub: Hub::new(&options, Arc::clone(&transport))?,
            gate: Gate::new(options.max_in_flight()),
            questions: Semaphore::new(QUESTIONS.min(options.max_in_flight())),
            cache: options.cache(&counters)?,
            counters,
            transport,
            buckets: Mutex::default(),
            known: Mutex::default(),
            options,
        })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Files below a folder, sorted by name.
    pub(crate) async fn list(&self, url: &str) -> Result<Vec<Listed>> {
        let url = self.pinned(url).await?;
        let (mut found, base) = match Address::parse(&url)? {
            Address::Object {
                provider,
                bucket,
                key,
            } => {
                let objects = self.bucket(provider, &bucket)?;
                let all = self.retried(|| objects.list(&key)).await?;
                let (scheme, _) = url.split_once("://").unwrap_or_default();
                (all, format!("{scheme}://{bucket}/"))
            }
            Address::Hub {
                dataset,
                revision,
                path,
            } => {
                let commit = revision.unwrap_or_default();
                let all = self
                    .retried(|| self.hub.list(&dataset, &commit, &path))
                    .await?;
                (all, format!("hf://datasets/{dataset}@{commit}/"))
            }
            Address::Web(_) => {
                return Err(Error::unsupported(
                    "web servers do not list folders: name the files one by one",
                ));
            }
        };
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let listed: Vec<_> = found
            .into_iter()
            .map(|(name, meta)| {
                let url = format!("{base}{name}");
                self.note(&url, &meta);
                listed(url, meta)
            })
            .collect();
        Ok(listed)
    }

    /// A URL of the hub with the commit in place of a branch or tag; others as they are.
    pub(crate) async fn pinned(&self, url: &str) -> Result<String> {
        let Address::Hub {
            dataset,
            revision,
            path,
        } = Address::parse(url)?
        else {
            return Ok(url.to_string());
        };
        let revision = revision.unwrap_or_else(|| "main".to_string());
        let is_commit =
            revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = if is_commit {
            revision
        } else {
            self.retried(|| self.hub.commit(&dataset, &revision))
                .await?
        };
        Ok(format!("hf://datasets/{dataset}@{commit}/{path}"))
    }

    pub(crate) async fn head(&self, url: &str) -> Result<Meta> {
        if let Some(meta) = self.recently_known(url) {
            return Ok(meta);
        }
        let address = Address::parse(url)?;
        let meta = match &address {
            Address::Object {
                provider,
                bucket,
                key,
            } => {
                let bucket = self.bucket(*provider, bucket)?;
                self.retried(|| bucket.head(key)).await?
            }
            Address::Web(url) => self.retried(|| self.web.head(url)).await?,
            Address::Hub {
                dataset,
                revision,
                path,
            } => {
                let commit = revision.as_deref().unwrap_or("main");
                self.retried(|| self.hub.head(dataset, commit, path))
                    .await?
            }
        };
        self.note(url, &meta);
        Ok(meta)
    }

    pub(crate) async fn retried<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        let throttled = || self.gate.throttle();
        until_done(self.options.deadline(), &self.counters, throttled, attempt).await
    }

    /// An error with the file it is about; and, if access is denied for lack of settings
    /// that did not travel here, with their names.
    pub(crate) fn named(&self, error: Error, url: &str) -> Error {
        let is_denied = error.kind() == Kind::Io(std::io::ErrorKind::PermissionDenied);
        let lost = self.options.lost();
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

    pub(crate) fn bucket(&self, provider: Provider, name: &str) -> Result<Arc<Bucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider, name.to_string());
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = Arc::new(Bucket::new(provider, name, &self.options, &self.transport)?);
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    /// What was heard of a file of late.
    pub(crate) fn recently_known(&self, url: &str) -> Option<Meta> {
        let known = self
            .known(url)
            .filter(|(_, since)| since.elapsed() < LISTING_KEPT);
        known.map(|(meta, _)| meta)
    }

    pub(crate) fn known(&self, url: &str) -> Option<(Meta, Instant)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(url).cloned()
    }

    /// Keeps what was heard of a file; some listings leave versions out.
    pub(crate) fn note(&self, url: &str, meta: &Meta) {
        if meta.version.is_empty() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(url.to_string(), (meta.clone(), Instant::now()));
    }
}

/// Counts a request as under way until it is dropped, also by a deadline.
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

/// Versions stand in place of times and inodes.
pub(crate) fn stamp(meta: &Meta) -> Stamp {
    let has_version = !meta.version.is_empty();
    Stamp {
        size: meta.size,
        modified_ns: if has_version {
            0
        } else {
            meta.modified.saturating_mul(1_000_000_000)
        },
        inode: if has_version {
            XxHash3_64::oneshot(meta.version.as_bytes())
        } else {
            0
        },
    }
}
