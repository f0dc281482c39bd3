//! The face of the crate: remote files, and local ones among them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::try_join_all;
use object_store::path::Path;
use pagefeed_core::error::{Error, Result};
use pagefeed_core::storage::{FileId, FileRanges, Stamp, Storage, Waiting};
use pagefeed_core::store::Store;
use tokio::task::block_in_place;
use twox_hash::XxHash3_64;

use crate::address::Address;
use crate::backends::bucket::{Bucket, Meta};
use crate::backends::uploads::{Condition, Version};
use crate::counters::{Counts, add};
use crate::live::{Listed, Live, listed, stamp};
use crate::options::Options;
use crate::reading::Source;
use crate::requests::{Requests, coalesced};
use crate::runtime;
use crate::transport::failure::Failure;

/// Files named by URLs or by local paths.
pub struct Remote {
    live: Arc<Live>,
    local: Store,
    cancel: Option<Arc<AtomicBool>>,
}

impl Remote {
    /// A storage with these settings; nothing is sent yet.
    pub fn new(options: Options) -> Result<Self> {
        Ok(Self {
            live: Arc::new(Live::new(options)?),
            local: Store::default(),
            cancel: None,
        })
    }

    /// Returns the same storage, whose calls end soon after `cancel` becomes true.
    pub fn with_cancel(&self, cancel: Arc<AtomicBool>) -> Self {
        Self {
            live: Arc::clone(&self.live),
            local: Store::default(),
            cancel: Some(cancel),
        }
    }

    /// Returns counts of requests so far.
    pub fn counts(&self) -> Counts {
        self.live.counters.counts()
    }

    /// Files of a bucket below a folder, sorted by name.
    pub fn list(&self, url: &str) -> Result<Vec<Listed>> {
        self.block_on(url, self.live.list(url))
    }

    /// Returns the hub's answer at one of its URLs about `file`, and the URL of the
    /// next page.
    pub fn ask_hub(&self, url: &str, file: &str) -> Result<(Bytes, Option<String>)> {
        self.block_on(file, self.live.retried(|| self.live.hub.answer(url)))
    }

    /// Keeps what the hub listed, so that it is not asked again soon.
    pub fn note(&self, files: Vec<Listed>) {
        for Listed { url, size, version } in files {
            let modified = 0;
            self.live.note(
                &url,
                &Meta {
                    size,
                    version,
                    modified,
                },
            );
        }
    }

    /// Returns the state of files, in order; with `as_listed`, as this storage knows
    /// them.
    pub fn find(&self, urls: &[String], as_listed: bool) -> Result<Vec<Listed>> {
        let metas = urls.iter().map(|url| async {
            let answer = async {
                let _permit = self.live.questions.acquire().await;
                let meta = if as_listed {
                    self.live.listed(url).await
                } else {
                    self.live.head(url).await
                };
                Ok(listed(url.clone(), meta?))
            };
            answer
                .await
                .map_err(|error: Error| self.live.named(error, url))
        });
        self.block(try_join_all(metas))
    }

    /// Returns bytes of a file in any state.
    pub fn read_now(&self, url: &str, range: Range<u64>) -> Result<Bytes> {
        let read = async {
            let source = Source::new(url, None, &self.cancel)?;
            let all = self.live.read(source, std::slice::from_ref(&range)).await?;
            Ok(all.into_iter().next().unwrap_or_default())
        };
        self.block_on_reads(read)
            .map_err(|error| self.live.named(error, url))
    }

    /// Writes a whole object; `None` if the condition does not hold.
    pub fn put(&self, url: &str, bytes: Bytes, condition: &Condition) -> Result<Option<Version>> {
        let put =
            async |bucket: &Bucket, key: &Path| bucket.put(key, bytes.clone(), condition).await;
        let done = self.write(url, put)?;
        if done.is_some() {
            return Ok(done);
        }
        // The object may have been written although the answer was lost.
        let object = self.fetch(url)?;
        Ok(object.and_then(|(there, version)| (there == bytes).then_some(version)))
    }

    /// Returns a whole object and its version; `None` if it does not exist.
    pub fn fetch(&self, url: &str) -> Result<Option<(Bytes, Version)>> {
        self.write(url, async |bucket, key| bucket.fetch(key).await)
    }

    /// Removes objects that exist.
    pub fn remove(&self, urls: &[String]) -> Result<()> {
        let removed = urls.iter().map(|url| async {
            let _permit = self.live.questions.acquire().await;
            let removed = self.written(url, async |bucket, key| bucket.remove(key).await);
            removed.await.map_err(|error| self.live.named(error, url))
        });
        self.block(try_join_all(removed)).map(drop)
    }

    /// Begins an upload in parts; returns its name.
    pub fn begin_upload(&self, url: &str) -> Result<String> {
        self.write(url, async |bucket, key| bucket.begin(key).await)
    }

    /// Writes a part of an object, numbered from 0 on; returns its name.
    pub fn put_part(
        &self,
        url: &str,
        upload: &String,
        part_number: usize,
        bytes: Bytes,
    ) -> Result<String> {
        self.write(url, async |bucket, key| {
            bucket
                .put_part(key, upload, part_number, bytes.clone())
                .await
        })
    }

    /// Completes an object of the parts with these names.
    pub fn finish_upload(&self, url: &str, upload: &String, parts: &[String]) -> Result<Version> {
        self.write(url, async |bucket, key| {
            bucket.complete(key, upload, parts).await
        })
    }

    /// Removes the parts of an unfinished object.
    pub fn abort_upload(&self, url: &str, upload: &String) -> Result<()> {
        self.write(url, async |bucket, key| bucket.abort(key, upload).await)
    }

    fn write<T>(
        &self,
        url: &str,
        work: impl AsyncFn(&Bucket, &Path) -> Result<T, Failure>,
    ) -> Result<T> {
        self.block_on(url, self.written(url, work))
    }

    /// Runs work on an object that is written. Rejected requests are repeated as reads
    /// are, and the known state of the object is dropped.
    async fn written<T>(
        &self,
        url: &str,
        work: impl AsyncFn(&Bucket, &Path) -> Result<T, Failure>,
    ) -> Result<T> {
        let Address::Object(object) = Address::parse(url)? else {
            return Err(Error::unsupported(
                "files are written to buckets (s3://, gs://, az://) and to folders of this machine",
            ));
        };
        let (bucket, key) = self.live.bucket_and_key(&object)?;
        let done = self.live.retried(|| work(&bucket, &key)).await;
        self.live.forget(url);
        done
    }

    async fn ranges_of(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = async {
            let source = Source::new(&file.path, Some(file.stamp), &self.cancel)?;
            self.live.read(source, ranges).await
        };
        read.await
            .map_err(|error| self.live.named(error, &file.path))
    }

    /// Ranges of a local file, such as one of a mounted folder: from the cache, or read.
    fn local_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let Some(cache) = &self.live.cache else {
            return self.local.read_ranges(file, ranges);
        };
        let size = |range: &Range<u64>| range.end.saturating_sub(range.start);
        let wanted = ranges.iter().map(size).sum::<u64>();
        add(&self.live.counters.bytes_wanted, wanted);
        let key = local_key(file);
        let cached = cache.find(key, &coalesced(ranges, 0));
        let missing = Requests(cached.missing);
        let read = self.local.read_ranges(file, &missing.0)?;
        for (range, bytes) in missing.0.iter().zip(&read) {
            add(&self.live.counters.bytes_fetched, bytes.len() as u64);
            cache.store(key, range.start, bytes);
        }
        let (all, bytes) = missing.with(read, cached.found);
        Ok(all.of_each(&bytes, ranges))
    }

    fn block<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        runtime::handle()?.block_on(runtime::unless(self.cancel.clone(), work))
    }

    fn block_on<T>(&self, url: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.block(work)
            .map_err(|error| self.live.named(error, url))
    }

    /// Waits for reads, which look themselves whether they were cancelled.
    fn block_on_reads<T>(&self, reads: impl Future<Output = Result<T>>) -> Result<T> {
        runtime::handle()?.block_on(reads)
    }
}

impl Storage for Remote {
    fn stamp(&self, path: &str) -> Result<Stamp> {
        if is_local(path) {
            return self.local.stamp(path);
        }
        let meta = self.block(self.live.listed(path));
        Ok(stamp(&meta.map_err(|error| self.live.named(error, path))?))
    }

    fn sampled(&self, path: &str) -> Result<Stamp> {
        match is_local(path) {
            true => self.local.sampled(path),
            false => self.stamp(path),
        }
    }

    fn read_ranges(&self, file: &FileId, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if is_local(&file.path) {
            return self.local_ranges(file, ranges);
        }
        self.block_on_reads(self.ranges_of(file, ranges))
    }

    fn read_files<'a>(&'a self, wanted: &'a [FileRanges]) -> Waiting<'a, Result<Vec<Vec<Bytes>>>> {
        let reads = wanted.iter().map(|FileRanges { file, ranges }| async {
            match is_local(&file.path) {
                true => block_in_place(|| self.local_ranges(file, ranges)),
                false => self.ranges_of(file, ranges).await,
            }
        });
        Box::pin(try_join_all(reads))
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
        // Only files that were listed in the last minute are checked here. Every read checks
        // its file, and asking for all of them would delay the start.
        let check = |file: &FileId| match self.live.recently_known(&file.path) {
            Some(meta) => file
                .check(stamp(&meta))
                .map_err(|error| self.live.named(error, &file.path)),
            None => Ok(()),
        };
        remote.iter().try_for_each(check)
    }

    fn num_in_flight(&self) -> usize {
        self.live.options.max_in_flight
    }

    fn num_wanted(&self) -> usize {
        self.live.gate.num_wanted()
    }

    fn spawn(&self, fetch: Waiting<'static, ()>) {
        match runtime::handle() {
            Ok(handle) => drop(handle.spawn(fetch)),
            // Its reads fail likewise, and say why.
            Err(_) => drop(fetch.now_or_never()),
        }
    }

    fn stopped_by(&self, stop: &Arc<AtomicBool>) -> Option<Arc<dyn Storage>> {
        Some(Arc::new(self.with_cancel(Arc::clone(stop))))
    }

    fn for_child(&self) -> Arc<dyn Storage> {
        match Self::new(self.live.options.clone()) {
            Ok(remote) => Arc::new(remote),
            // This storage could be made, so the other can, too; else each read says why not.
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

/// Hash of a local file and the state it was indexed in.
fn local_key(file: &FileId) -> u64 {
    let text = format!("file://{} {}", file.path, file.stamp.version());
    XxHash3_64::oneshot(text.as_bytes())
}

fn is_local(path: &str) -> bool {
    !path.contains("://")
}
