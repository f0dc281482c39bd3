//! Writes and removes objects. What a server does not accept is tried again like a read.

use std::sync::Arc;

use bytes::Bytes;
use pagefeed_core::error::{Error, Result};

use crate::live::Live;
use crate::places::address::Address;
use crate::places::bucket::Bucket;
use crate::places::uploads::{Condition, Version};

impl Live {
    /// Writes a whole object; `None` if the condition does not hold.
    pub(crate) async fn put(
        &self,
        url: &str,
        bytes: Bytes,
        condition: &Condition,
    ) -> Result<Option<Version>> {
        let (bucket, key) = self.place(url)?;
        let put = || bucket.put(&key, bytes.clone(), condition);
        let done = self.retried(put).await?;
        self.forget(url);
        if done.is_some() {
            return Ok(done);
        }
        // The object may have been written although the answer was lost.
        let found = self.retried(|| bucket.fetch(&key)).await?;
        Ok(found.and_then(|(there, version)| (there == bytes).then_some(version)))
    }

    /// A whole object and its version; `None` if there is none.
    pub(crate) async fn fetch(&self, url: &str) -> Result<Option<(Bytes, Version)>> {
        let (bucket, key) = self.place(url)?;
        self.retried(|| bucket.fetch(&key)).await
    }

    pub(crate) async fn remove(&self, url: &str) -> Result<()> {
        let (bucket, key) = self.place(url)?;
        self.retried(|| bucket.remove(&key)).await?;
        self.forget(url);
        Ok(())
    }

    pub(crate) async fn begin_upload(&self, url: &str) -> Result<String> {
        let (bucket, key) = self.place(url)?;
        self.retried(|| bucket.begin(&key)).await
    }

    pub(crate) async fn put_part(
        &self,
        url: &str,
        upload: &String,
        number: usize,
        bytes: Bytes,
    ) -> Result<String> {
        let (bucket, key) = self.place(url)?;
        let put = || bucket.part(&key, upload, number, bytes.clone());
        self.retried(put).await
    }

    pub(crate) async fn finish_upload(
        &self,
        url: &str,
        upload: &String,
        parts: &[String],
    ) -> Result<Version> {
        let (bucket, key) = self.place(url)?;
        let done = self.retried(|| bucket.complete(&key, upload, parts)).await;
        self.forget(url);
        done
    }

    pub(crate) async fn abort_upload(&self, url: &str, upload: &String) -> Result<()> {
        let (bucket, key) = self.place(url)?;
        self.retried(|| bucket.abort(&key, upload)).await
    }

    /// The bucket and key of an object that can be written.
    fn place(&self, url: &str) -> Result<(Arc<Bucket>, String)> {
        match Address::parse(url)? {
            Address::Object {
                provider,
                bucket,
                key,
            } => Ok((self.bucket(provider, &bucket)?, key)),
            _ => Err(Error::unsupported(
                "files are written to buckets (s3://, gs://, az://) and to folders of this machine",
            )),
        }
    }
}
