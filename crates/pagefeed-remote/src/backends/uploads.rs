//! Writes objects of one bucket: whole, or as parts that appear together.

use bytes::{Bytes, BytesMut};
use futures_util::TryStreamExt;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutResult, UpdateVersion};

use crate::backends::bucket::Bucket;
use crate::transport::Answer;
use crate::transport::failure::{Failure, error_code, is_bucket_missing};
use crate::transport::pulse::arrived;

/// Tag and number of an object's version; a provider compares one of them.
pub type Version = (Option<String>, Option<String>);

/// Condition for writing an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// None: an object of this name is replaced.
    Nothing,
    /// No object of this name exists.
    Absent,
    /// The object has this version.
    Unchanged(Version),
}

impl Condition {
    /// Whether an answer means that the condition does not hold.
    fn is_unmet(&self, status: Option<u16>, code: &str) -> bool {
        match (self, status) {
            (Self::Nothing, _) => false,
            (Self::Absent | Self::Unchanged(_), Some(304 | 412)) => true,
            (Self::Absent, Some(409)) => code.is_empty() || code.contains("AlreadyExists"),
            (Self::Unchanged(_), Some(404)) => !is_bucket_missing(code),
            (Self::Absent | Self::Unchanged(_), _) => false,
        }
    }
}

impl Bucket {
    /// Writes an object; `None` if the condition does not hold.
    pub(crate) async fn put(
        &self,
        key: &Path,
        bytes: Bytes,
        condition: &Condition,
    ) -> Result<Option<Version>, Failure> {
        let mode = match condition {
            Condition::Nothing => PutMode::Overwrite,
            Condition::Absent => PutMode::Create,
            Condition::Unchanged((e_tag, version)) => PutMode::Update(UpdateVersion {
                e_tag: e_tag.clone(),
                version: version.clone(),
            }),
        };
        let is_unmet = |error: &object_store::Error, answer: &Answer| {
            condition.is_unmet(answer.status, error_code(&error.to_string()))
        };
        let store = self.store();
        let put = store.put_opts(key, bytes.into(), mode.into());
        Ok(self.ask_unless(is_unmet, put).await?.map(version))
    }

    /// Returns a whole object and its version; `None` if it does not exist.
    pub(crate) async fn fetch(&self, key: &Path) -> Result<Option<(Bytes, Version)>, Failure> {
        let store = self.store();
        let read = async {
            let object = store.get(key).await?;
            let version = (object.meta.e_tag.clone(), object.meta.version.clone());
            let (mut all, mut chunks) = (BytesMut::new(), object.into_stream());
            while let Some(chunk) = chunks.try_next().await? {
                all.extend_from_slice(&chunk);
                arrived(chunk.len() as u64, all.len() as u64);
            }
            Ok((all.freeze(), version))
        };
        self.ask_unless(is_absent, read).await
    }

    /// Removes an object, if it exists.
    pub(crate) async fn remove(&self, key: &Path) -> Result<(), Failure> {
        let removed = self.ask_unless(is_absent, self.store().delete(key)).await;
        removed.map(drop)
    }

    /// Begins an upload in parts; returns its name.
    pub(crate) async fn begin(&self, key: &Path) -> Result<String, Failure> {
        self.ask(self.store().create_multipart(key)).await
    }

    /// Writes a part of an upload; returns its name.
    pub(crate) async fn put_part(
        &self,
        key: &Path,
        upload: &String,
        part_number: usize,
        bytes: Bytes,
    ) -> Result<String, Failure> {
        let store = self.store();
        let sent = self.ask(store.put_part(key, upload, part_number, bytes.into()));
        Ok(sent.await?.content_id)
    }

    /// Completes an object from all parts.
    pub(crate) async fn complete(
        &self,
        key: &Path,
        upload: &String,
        parts: &[String],
    ) -> Result<Version, Failure> {
        let parts = parts.iter().map(|content_id| PartId {
            content_id: content_id.clone(),
        });
        let store = self.store();
        let done = self.ask(store.complete_multipart(key, upload, parts.collect()));
        Ok(version(done.await?))
    }

    /// Removes the parts of an upload, if there are any.
    pub(crate) async fn abort(&self, key: &Path, upload: &String) -> Result<(), Failure> {
        let is_gone = |error: &object_store::Error, answer: &Answer| {
            is_absent(error, answer) || answer.status == Some(404)
        };
        let store = self.store();
        let aborted = self.ask_unless(is_gone, store.abort_multipart(key, upload));
        aborted.await.map(drop)
    }
}

fn is_absent(error: &object_store::Error, _: &Answer) -> bool {
    matches!(error, object_store::Error::NotFound { .. })
}

fn version(done: PutResult) -> Version {
    (done.e_tag, done.version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_unmet_by_answers_about_the_object_alone() {
        let unchanged = Condition::Unchanged((Some("a".into()), None));
        for (status, code, expected) in [
            (412, "PreconditionFailed", [false, true, true]),
            (409, "BlobAlreadyExists", [false, true, false]),
            (409, "InvalidBucketState", [false, false, false]),
            (404, "NoSuchKey", [false, false, true]),
            (404, "NoSuchBucket", [false, false, false]),
            (403, "AccessDenied", [false, false, false]),
        ] {
            let conditions = [&Condition::Nothing, &Condition::Absent, &unchanged];
            let are_unmet = conditions.map(|condition| condition.is_unmet(Some(status), code));
            assert_eq!(are_unmet, expected, "{status} {code}");
        }
    }
}
