//! What a storage has at work: connections, and what is known by now.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select, try_join_all};
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::store::Stamp;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::sleep;
use twox_hash::XxHash3_64;

use crate::address::{Address, Provider, without_query};
use crate::bucket::{Bucket, Meta};
use crate::counters::{Counters, Counts, add};
use crate::failure::Failure;
use crate::hub::Hub;
use crate::options::Options;
use crate::remote::Listed;
use crate::requests::Requests;
use crate::retry::until_done;
use crate::transport::Transport;
use crate::web::Web;

/// A request this many times slower than the mean is sent a second time,
const SLOW: u32 = 4;
/// but not before this.
const LEAST_SLOW: Duration = Duration::from_secs(1);
/// What is listed is not asked for again so soon.
const LISTING_KEPT: Duration = Duration::from_secs(60);

/// Connections and what is known by now, shared by all uses of a storage.
pub(crate) struct Live {
    options: Options,
    counters: Arc<Counters>,
    transport: Arc<Transport>,
    web: Web,
    hub: Hub,
    buckets: Mutex<HashMap<(Provider, String), Arc<Bucket>>>,
    /// What objects were when last heard of.
    known: Mutex<HashMap<String, (Meta, Instant)>>,
    permits: Semaphore,
    /// Mean microseconds of requests.
    mean_time: AtomicU64,
}

impl Live {
    pub(crate) fn new(options: Options) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let transport = Transport::new(&options, Arc::clone(&counters))?;
        Ok(Self {
            web: Web::new(Arc::clone(&transport), options.authorization())?,
            hub: Hub::new(&options, Arc::clone(&transport))?,
            permits: Semaphore::new(options.max_in_flight()),
            counters,
            transport,
            buckets: Mutex::default(),
            known: Mutex::default(),
            mean_time: AtomicU64::default(),
            options,
        })
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counters.counts()
    }

    /// Waits until one more request may be under way.
    pub(crate) async fn permit(&self) -> Result<SemaphorePermit<'_>> {
        let permit = self.permits.acquire().await;
        permit.map_err(|_| Error::new(Kind::Cancelled, "the storage was closed"))
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
        if let Some((meta, since)) = self.known(url)
            && since.elapsed() < LISTING_KEPT
        {
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

    /// Ranges of a file that is in the state `expected`, if one is.
    pub(crate) async fn read(
        &self,
        url: &str,
        address: &Address,
        ranges: &[Range<u64>],
        expected: Option<Stamp>,
    ) -> Result<Vec<Bytes>> {
        let wanted = ranges
            .iter()
            .map(|range| range.end.saturating_sub(range.start))
            .sum();
        add(&self.counters.bytes_wanted, wanted);
        if let Some(stamp) = expected
            && ranges.iter().any(|range| range.end > stamp.size)
        {
            return Err(Error::corrupt(format!(
                "bytes {ranges:?} were asked for, the file has {}",
                stamp.size
            )));
        }
        let requests = Requests::covering(ranges);
        let parts = requests.0.iter().map(|range| {
            self.retried(move || self.hedged(move || self.part(url, address, range, expected)))
        });
        let answers = try_join_all(parts).await?;
        Ok(ranges
            .iter()
            .map(|range| requests.bytes(&answers, range))
            .collect())
    }

    /// One attempt to read a range.
    async fn part(
        &self,
        url: &str,
        address: &Address,
        range: &Range<u64>,
        expected: Option<Stamp>,
    ) -> Result<Bytes, Failure> {
        let _permit = self.permit().await.map_err(Failure::Final)?;
        let _under_way = UnderWay::begin(&self.counters);
        let begin = Instant::now();
        let tag = self
            .known(url)
            .filter(|(meta, _)| expected == Some(stamp(meta)));
        let tag = tag.and_then(|(meta, _)| meta.tag());
        let (bytes, meta) = match address {
            Address::Object {
                provider,
                bucket,
                key,
            } => {
                let bucket = self.bucket(*provider, bucket).map_err(Failure::Final)?;
                bucket.get(key, range, tag).await?
            }
            Address::Web(url) => self.web.get(url, range, tag).await?,
            Address::Hub {
                dataset,
                revision,
                path,
            } => {
                let commit = revision.as_deref().unwrap_or("main");
                self.hub.get((dataset, commit, path), range).await?
            }
        };
        add(&self.counters.bytes_fetched, bytes.len() as u64);
        if expected.is_some_and(|expected| expected != stamp(&meta)) {
            return Err(Failure::stale("the object changed since it was indexed"));
        }
        if bytes.len() as u64 != range.end - range.start {
            return Err(Failure::again(format!(
                "{} bytes came of the {} asked for",
                bytes.len(),
                range.end - range.start
            )));
        }
        self.note(url, &meta);
        self.measure(begin.elapsed());
        Ok(bytes)
    }

    /// An attempt, and another one beside it if it takes long: the first to succeed.
    async fn hedged<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, Failure> {
        let first = pin!(attempt());
        let slow = pin!(sleep(self.slow()));
        let first = match select(first, slow).await {
            Either::Left((done, _)) => return done,
            Either::Right((_, first)) => first,
        };
        add(&self.counters.hedges, 1);
        let second = pin!(attempt());
        match select(first, second).await {
            Either::Left((Err(Failure::Again { .. }), second)) => second.await,
            Either::Right((Err(Failure::Again { .. }), first)) => first.await,
            Either::Left((done, _)) | Either::Right((done, _)) => done,
        }
    }

    async fn retried<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T> {
        until_done(self.options.deadline(), &self.counters, attempt).await
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
        error.in_file(without_query(url))
    }

    fn bucket(&self, provider: Provider, name: &str) -> Result<Arc<Bucket>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (provider, name.to_string());
        if let Some(bucket) = buckets.get(&key) {
            return Ok(Arc::clone(bucket));
        }
        let bucket = Arc::new(Bucket::new(provider, name, &self.options, &self.transport)?);
        buckets.insert(key, Arc::clone(&bucket));
        Ok(bucket)
    }

    fn known(&self, url: &str) -> Option<(Meta, Instant)> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(url).cloned()
    }

    /// Keeps what was heard of a file; some listings leave versions out.
    fn note(&self, url: &str, meta: &Meta) {
        if meta.version.is_empty() {
            return;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(url.to_string(), (meta.clone(), Instant::now()));
    }

    fn measure(&self, time: Duration) {
        let time = time.as_micros() as u64;
        let mean = self.mean_time.load(Ordering::Relaxed);
        let next = if mean == 0 {
            time
        } else {
            mean - mean / 16 + time / 16
        };
        self.mean_time.store(next, Ordering::Relaxed);
    }

    /// When a request is slow.
    fn slow(&self) -> Duration {
        let mean = Duration::from_micros(self.mean_time.load(Ordering::Relaxed));
        (mean * SLOW).max(LEAST_SLOW)
    }
}

/// Counts a request as under way until it is dropped, also by a deadline.
struct UnderWay<'a>(&'a Counters);

impl<'a> UnderWay<'a> {
    fn begin(counters: &'a Counters) -> Self {
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
