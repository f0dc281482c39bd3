//! Reads ranges of files: from the cache, or by requests that are coalesced, hedged and tried
//! again. Each answer is compared with the indexed state of the file.
//!
//! A task on the threads that hold the connections reads each range. So who waits wakes
//! once per range, not once per chunk that arrives.

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{Either, select, try_join_all};
use pagefeed_core::error::{Error, Result};
use pagefeed_core::file_reads;
use pagefeed_core::storage::Stamp;
use tokio::task::block_in_place;
use tokio::time::sleep;
use twox_hash::XxHash3_64;

use crate::address::{Address, HubFile};
use crate::backends::bucket::Meta;
use crate::backends::own;
use crate::counters::add;
use crate::live::{Live, UnderWay, stamp};
use crate::pace::may_hedge;
use crate::requests::{Requests, coalesced};
use crate::runtime;
use crate::transport::body::Body;
use crate::transport::failure::Failure;

/// A file, and the state it was indexed in.
pub(crate) struct Source {
    url: String,
    address: Address,
    expected: Option<Stamp>,
    /// Becomes true when its reads are to end.
    cancel: Option<Arc<AtomicBool>>,
}

impl Source {
    pub(crate) fn new(
        url: &str,
        expected: Option<Stamp>,
        cancel: &Option<Arc<AtomicBool>>,
    ) -> Result<Self> {
        Ok(Self {
            url: url.to_string(),
            address: Address::parse(url)?,
            expected,
            cancel: cancel.clone(),
        })
    }

    /// Hash of the file and its version; `None` if the version is unknown. `endpoint` tells
    /// buckets of a name from each other. Versions of the hub are made of contents: they stay
    /// when another commit leaves a file as it is.
    fn key(&self, endpoint: &str) -> Option<u64> {
        let stamp = self.expected?;
        let is_known = stamp.inode != 0 || stamp.modified_ns != 0;
        let state = (stamp.size, stamp.modified_ns, stamp.inode);
        let name = match &self.address {
            Address::Hub(HubFile { place, path, .. }) => format!("hf://{place}/{path}"),
            _ => self.url.clone(),
        };
        let text = format!("{endpoint} {name} {state:?}");
        is_known.then(|| XxHash3_64::oneshot(text.as_bytes()))
    }
}

impl Live {
    /// Returns ranges of a file, which must have the expected state if there is one.
    pub(crate) async fn read(
        self: &Arc<Self>,
        source: Source,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Bytes>> {
        let size = |range: &Range<u64>| range.end.saturating_sub(range.start);
        add(
            &self.counters.bytes_wanted,
            ranges.iter().map(size).sum::<u64>(),
        );
        if let Some(stamp) = source.expected
            && ranges.iter().any(|range| range.end > stamp.size)
        {
            return Err(Error::corrupt(format!(
                "bytes {ranges:?} were asked for, the file has {}",
                stamp.size
            )));
        }
        let cache = match &self.cache {
            Some(cache) => Some(cache).zip(source.key(&self.endpoint_of(&source.address)?)),
            None => None,
        };
        let source = Arc::new(source);
        let Some((cache, key)) = cache else {
            let requests = Requests::covering(ranges, self.gate.request_bytes());
            let answers = self.answers(&source, &requests).await?;
            return Ok(requests.of_each(&answers, ranges));
        };
        let cached = block_in_place(|| cache.find(key, &coalesced(ranges, 0)));
        let requests = Requests::covering(&cached.missing, self.gate.request_bytes());
        let answers = self.answers(&source, &requests).await?;
        block_in_place(|| {
            for (range, bytes) in requests.0.iter().zip(&answers) {
                cache.store(key, range.start, bytes);
            }
        });
        let (all, bytes) = requests.with(answers, cached.found);
        Ok(all.of_each(&bytes, ranges))
    }

    async fn answers(
        self: &Arc<Self>,
        source: &Arc<Source>,
        requests: &Requests,
    ) -> Result<Vec<Bytes>> {
        let answer = |range: &Range<u64>| {
            let (live, source, range) = (Arc::clone(self), Arc::clone(source), range.clone());
            runtime::spawned(source.cancel.clone(), async move {
                let again = AtomicBool::new(false);
                let attempt = || {
                    if again.swap(true, Ordering::Relaxed) {
                        file_reads::count_retry(&source.url);
                    }
                    live.attempt(&source, &range)
                };
                live.retried(attempt).await
            })
        };
        try_join_all(requests.0.iter().map(answer)).await
    }

    /// One attempt to read a range. If it takes long, a second request is sent, and the first
    /// answer counts.
    async fn attempt(&self, source: &Source, range: &Range<u64>) -> Result<Bytes, Failure> {
        let _pass = self.gate.enter().await.map_err(Failure::Final)?;
        let size = range.end - range.start;
        let first = pin!(self.read_once(source, range));
        let slow = pin!(sleep(self.gate.slow(size)));
        let first = match select(first, slow).await {
            Either::Left((done, _)) => return done,
            Either::Right((_, first)) => first,
        };
        let requests = self.counters.requests.load(Ordering::Relaxed);
        let hedges = self.counters.hedges.load(Ordering::Relaxed);
        if !may_hedge(requests, hedges) {
            return first.await;
        }
        add(&self.counters.hedges, 1);
        let second = pin!(self.read_once(source, range));
        match select(first, second).await {
            Either::Left((Err(Failure::Again { .. }), second)) => second.await,
            Either::Right((Err(Failure::Again { .. }), first)) => first.await,
            Either::Left((done, _)) | Either::Right((done, _)) => done,
        }
    }

    /// One request for a range.
    async fn read_once(&self, source: &Source, range: &Range<u64>) -> Result<Bytes, Failure> {
        let Source {
            url,
            address,
            expected,
            ..
        } = source;
        let _under_way = UnderWay::begin(&self.counters);
        let begin = Instant::now();
        let noted = self.noted(url).map(|(meta, _)| meta);
        let tag = noted.filter(|meta| *expected == Some(stamp(meta)));
        let tag = tag.and_then(|meta| meta.tag());
        let read = self.body(address, range, tag).await;
        if file_reads::are_counted() {
            let bytes = read.as_ref().map_or(0, |_| range.end - range.start);
            file_reads::count(url, 1, bytes, begin.elapsed());
        }
        let (body, meta) = read.inspect_err(|failure| {
            if matches!(failure, Failure::Final(_)) {
                self.forget(url);
            }
        })?;
        if expected.is_some_and(|expected| expected != stamp(&meta)) {
            let had_tag = expected.is_some_and(|expected| expected.inode != 0);
            if had_tag && meta.tag().is_none() {
                return Err(Failure::untagged(!meta.version.is_empty()));
            }
            self.forget(url);
            return Err(Failure::stale("the object changed since it was indexed"));
        }
        if meta.size < range.end {
            let size = meta.size;
            return Err(Failure::stale(&format!(
                "bytes {range:?} were asked for, and the object has {size}"
            )));
        }
        let bytes = body.whole()?;
        self.note(url, &meta);
        self.gate.measure(bytes.len() as u64, begin.elapsed());
        Ok(bytes)
    }

    async fn body(
        &self,
        address: &Address,
        range: &Range<u64>,
        tag: Option<String>,
    ) -> Result<(Body, Meta), Failure> {
        match address {
            Address::Object(object) => {
                let (bucket, key) = self.bucket_and_key(object).map_err(Failure::Final)?;
                bucket.get(&key, range, tag).await
            }
            Address::Web(url) => self.web.get(url, range, tag).await,
            Address::Hub(file) => self.hub.get(file, range).await,
            Address::Own(key) => own::get(&self.options.store, key, range).await,
        }
    }
}
