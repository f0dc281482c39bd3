//! The face: files of all remote places, and those of this machine among them.

use std::collections::HashMap;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{Either, select, try_join_all};
use pagefeed_core::error::{Error, Kind, Result};
use pagefeed_core::storage::Storage;
use pagefeed_core::store::{FileId, Stamp, Store};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use twox_hash::XxHash3_64;

use crate::address::{Address, Provider, without_query};
use crate::bucket::{Bucket, Meta};
use crate::counters::{Counters, Counts, add};
use crate::failure::Failure;
use crate::hub::Hub;
use crate::options::Options;
use crate::requests::Requests;
use crate::retry::until_done;
use crate::runtime;
use crate::transport::Transport;
use crate::web::Web;

/// How often a blocking call looks whether it is to end.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);
/// A request this many times slower than the mean is sent a second time,
const SLOW: u32 = 4;
/// but not before this.
const LEAST_SLOW: Duration = Duration::from_secs(1);
/// What is listed is not asked for again so soon.
const LISTING_KEPT: Duration = Duration::from_secs(60);

/// A file as a store lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its URL; of the hub, with the commit.
    pub url: String,
    /// Bytes.
    pub size: u64,
    /// What changes whenever it does; may be empty.
    pub version: String,
}

/// Files named by URLs, and by paths of this machine.
pub struct Remote {
    live: Arc<Live>,
    local: Store,
    cancel: Option<Arc<AtomicBool>>,
}

/// Connections and what is known by now, shared by all uses of a storage.
struct Live {
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

impl Remote {
    /// A storage with these settings; nothing is sent yet.
    pub fn new(options: Options) -> Result<Self> {
        let counters = Arc::new(Counters::default());
        let transport = Transport::new(&options, Arc::clone(&counters))?;
        Ok(Self {
            live: Arc::new(Live {
                web: Web::new(Arc::clone(&transport), options.authorization())?,
                hub: Hub::new(&options, Arc::clone(&transport))?,
                permits: Semaphore::new(options.max_in_flight()),
                counters,
                transport,
                buckets: Mutex::default(),
                known: Mutex::default(),
                mean_time: AtomicU64::default(),
                options,
            }),
            local: Store::default(),
            cancel: None,
        })
    }

    /// The same storage, whose calls end soon after `cancel` becomes true.
    pub fn with_cancel(&self, cancel: Arc<AtomicBool>) -> Self {
        Self {
            live: Arc::clone(&self.live),
            local: Store::default(),
            cancel: Some(cancel),
        }
    }

    /// What was sent so far.
    pub fn counts(&self) -> Counts {
        self.live.counters.counts()
    }

    /// Files below a folder, sorted by name. A revision of the hub becomes its commit.
    pub fn list(&self, url: &str) -> Result<Vec<Listed>> {
        let found = self.block(self.live.list(url));
        found.map_err(|error| error.in_file(without_query(url)))
    }

    /// Some files, in their order. Revisions of the hub become commits.
    pub fn find(&self, urls: &[String]) -> Result<Vec<Listed>> {
        let found = urls.iter().map(|url| async {
            let one = async {
                let permit = self.live.permits.acquire().await;
                let _permit = permit.map_err(|_| closed())?;
                let url = self.live.pinned(url).await?;
                let meta = self.live.head(&url).await?;
                Ok(listed(url, meta))
            };
            one.await
                .map_err(|error: Error| error.in_file(without_query(url)))
        });
        self.block(try_join_all(found))
    }

    /// Bytes of a file in whatever state it is.
    pub fn read_now(&self, url: &str, range: Range<u64>) -> Result<Bytes> {
        let read = async {
            let address = Address::parse(url)?;
            let all = self
                .live
                .read(url, &address, std::slice::from_ref(&range), None)
                .await?;
            Ok(all.into_iter().next().unwrap_or_default())
        };
        self.block(read)
            .map_err(|error| error.in_file(without_query(url)))
    }

    fn block<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        runtime::handle()?.block_on(async {
            let Some(cancel) = &self.cancel else {
                return work.await;
            };
            let cancelled = async {
                while !cancel.load(Ordering::Relaxed) {
                    sleep(CANCEL_INTERVAL).await;
                }
            };
            match select(pin!(work), pin!(cancelled)).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => Err(Error::new(Kind::Cancelled, "the read was cancelled")),
            }
        })
    }
}

impl Storage for Remote {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        if is_local(path) {
            return self.local.stamp(path);
        }
        let meta = self.block(self.live.head(path));
        Ok(stamp(
            &meta.map_err(|error| error.in_file(without_query(path)))?,
        ))
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if is_local(&file.path) {
            return self.local.read_ranges(file, ranges);
        }
        let read = async {
            let address = Address::parse(&file.path)?;
            self.live
                .read(&file.path, &address, ranges, Some(file.stamp))
                .await
        };
        self.block(read)
            .map_err(|error| error.in_file(without_query(&file.path)))
    }

    fn will_need(&self, file: &FileId, range: Range<u64>) {
        if is_local(&file.path) {
            self.local.will_need(file, range);
        }
    }

    fn check(&self, files: &[FileId]) -> Result<()> {
        let (local, remote): (Vec<_>, Vec<_>) =
            files.iter().cloned().partition(|file| is_local(&file.path));
        self.local.check(&local)?;
        let checks = remote.iter().map(|file| async {
            let permit = self.live.permits.acquire().await;
            let _permit = permit.map_err(|_| closed())?;
            let meta = self.live.head(&file.path).await;
            let found = meta.map_err(|error| error.in_file(without_query(&file.path)))?;
            file.check(stamp(&found))
        });
        self.block(try_join_all(checks)).map(drop)
    }

    fn num_in_flight(&self) -> usize {
        self.live.options.max_in_flight()
    }

    fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Option<Arc<dyn Storage>> {
        Some(Arc::new(self.with_cancel(Arc::clone(stop))))
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        match Self::new(self.live.options.clone()) {
            Ok(remote) => Arc::new(remote),
            // As this one could be made, so can the other; else each read says why not.
            Err(error) => Arc::new(Broken(error)),
        }
    }
}

/// A storage that could not be made again after a fork.
struct Broken(Error);

impl Storage for Broken {
    fn stamp(&self, _: &str) -> Result<Stamp> {
        Err(self.0.clone())
    }

    fn read_ranges(&self, _: &FileId, _: &[Range<u64>]) -> Result<Vec<Bytes>> {
        Err(self.0.clone())
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        Arc::new(Self(self.0.clone()))
    }
}

impl Live {
    async fn list(&self, url: &str) -> Result<Vec<Listed>> {
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
    async fn pinned(&self, url: &str) -> Result<String> {
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

    async fn head(&self, url: &str) -> Result<Meta> {
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
    async fn read(
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
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| Failure::Final(closed()))?;
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

fn closed() -> Error {
    Error::new(Kind::Cancelled, "the storage was closed")
}

fn is_local(path: &str) -> bool {
    !path.contains("://")
}

fn listed(url: String, meta: Meta) -> Listed {
    Listed {
        url,
        size: meta.size,
        version: meta.version,
    }
}

/// Versions stand in place of times and inodes.
fn stamp(meta: &Meta) -> Stamp {
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
