//! Objects of one bucket, through object_store.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use futures_util::TryStreamExt;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use pagefeed_core::error::{Error, Result};

use crate::backends::keys::KeyRing;
use crate::transport::body::Body;
use crate::transport::failure::{Failure, error_code, region};
use crate::transport::{Answer, observed};

/// Operations of buckets.
pub(crate) trait Objects: ObjectStore + MultipartStore + PaginatedListStore {}

impl<T: ObjectStore + MultipartStore + PaginatedListStore> Objects for T {}

/// Words of servers for keys that were valid once.
const EXPIRED: [&str; 3] = [
    "ExpiredToken",
    "ExpiredTokenException",
    "TokenRefreshRequired",
];

/// State of a file, from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) size: u64,
    /// ETag without quotes, or other text that changes with the file; may be empty.
    pub(crate) version: String,
    /// Seconds since 1970.
    pub(crate) modified: i64,
}

impl Meta {
    /// The version of a tag, which headers and listings quote differently.
    pub(crate) fn version_of(tag: &str) -> String {
        let is_whole = tag.starts_with('"') && tag.ends_with('"') && tag.len() > 1;
        (if is_whole {
            &tag[1..tag.len() - 1]
        } else {
            tag
        })
        .to_string()
    }

    /// The tag for `If-Match`, which takes neither weak tags nor dates.
    pub(crate) fn tag(&self) -> Option<String> {
        let is_tag = !self.version.is_empty() && !self.version.contains(['"', ' ']);
        is_tag.then(|| format!("\"{}\"", self.version))
    }
}

/// Opens a bucket, in a region if one is given.
type Open = Box<dyn Fn(Option<&str>) -> Result<(Box<dyn Objects>, String)> + Send + Sync>;

pub(crate) struct Bucket {
    open: Open,
    store: RwLock<(Option<String>, Arc<dyn Objects>)>,
    keys: Option<Arc<KeyRing>>,
    /// Identifies the bucket among others of its name: endpoint and account.
    pub(crate) endpoint: String,
}

/// A page of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<(String, Meta)>,
    pub(crate) folders: Vec<String>,
    /// Position at which the list continues.
    pub(crate) next: Option<String>,
}

impl Bucket {
    pub(crate) fn new(open: Open, keys: Option<Arc<KeyRing>>) -> Result<Self> {
        let (store, endpoint) = open(None)?;
        let store = RwLock::new((None, Arc::from(store)));
        Ok(Self {
            open,
            store,
            keys,
            endpoint,
        })
    }

    pub(crate) async fn head(&self, key: &Path) -> Result<Meta, Failure> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let (store, is_refused) = (self.store(), |_: &_, answer: &Answer| {
            answer.may_refuse_head()
        });
        match self
            .ask_unless(is_refused, store.get_opts(key, options))
            .await?
        {
            Some(object) => Ok(meta(&object.meta)),
            None => Ok(self.get(key, &(0..1), None).await?.1),
        }
    }

    /// Bytes of an object, and its state when they were read.
    pub(crate) async fn get(
        &self,
        key: &Path,
        range: &Range<u64>,
        if_match: Option<String>,
    ) -> Result<(Body, Meta), Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match,
            ..GetOptions::default()
        };
        let store = self.store();
        let read = async {
            let object = store.get_opts(key, options).await?;
            let meta = meta(&object.meta);
            let mut body = Body::of(range);
            let mut chunks = object.into_stream();
            while let Some(chunk) = chunks.try_next().await? {
                body.push(chunk);
            }
            Ok((body, meta))
        };
        self.ask(read).await
    }

    /// Returns a page of the objects whose keys begin with a prefix: all of them, or
    /// only those directly in one folder, with its folders.
    pub(crate) async fn page(
        &self,
        prefix: &str,
        by_folder: bool,
        next: Option<String>,
    ) -> Result<Page, Failure> {
        let options = PaginatedListOptions {
            delimiter: by_folder.then_some("/".into()),
            page_token: next,
            ..PaginatedListOptions::default()
        };
        let prefix = (!prefix.is_empty()).then_some(prefix);
        let page = self
            .ask(self.store().list_paginated(prefix, options))
            .await?;
        let named = |object: ObjectMeta| (object.location.to_string(), meta(&object));
        let folder = |path: Path| format!("{path}/");
        Ok(Page {
            objects: page.result.objects.into_iter().map(named).collect(),
            folders: page
                .result
                .common_prefixes
                .into_iter()
                .map(folder)
                .collect(),
            next: page.page_token.filter(|token| !token.is_empty()),
        })
    }

    /// Waits for an answer of the store; its errors say what to do.
    pub(super) async fn ask<T>(
        &self,
        question: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, Failure> {
        let never = |_: &_, _: &_| false;
        let answered = self.ask_unless(never, question).await?;
        answered.ok_or_else(|| {
            Failure::Final(Error::internal(
                "the storage gave neither an answer nor an error",
            ))
        })
    }

    /// Waits for an answer; `None` after an error for which `is_nothing` is true.
    pub(super) async fn ask_unless<T>(
        &self,
        is_nothing: impl Fn(&object_store::Error, &Answer) -> bool,
        question: impl Future<Output = object_store::Result<T>>,
    ) -> Result<Option<T>, Failure> {
        let begun = Instant::now();
        match observed(question).await {
            (Ok(answered), _) => Ok(Some(answered)),
            (Err(error), answer) if is_nothing(&error, &answer) => Ok(None),
            (Err(error), answer) => Err(self.failed(&error, &answer, begun).await),
        }
    }

    /// Decides what to do after an error: the bucket may be in another region, keys may
    /// be old.
    async fn failed(
        &self,
        error: &object_store::Error,
        answer: &Answer,
        begun: Instant,
    ) -> Failure {
        let is_elsewhere = matches!(answer.status, Some(301 | 307 | 400));
        let named = answer.region.clone().or_else(|| region(error));
        if let Some(region) = named.filter(|_| is_elsewhere)
            && self.moved_to(&region)
        {
            return Failure::again(format!("the bucket is in region {region}"));
        }
        let is_expired = EXPIRED.contains(&error_code(&error.to_string()));
        let is_refused = is_expired || matches!(answer.status, Some(401 | 403));
        if let Some(keys) = self.keys.as_ref().filter(|_| is_refused)
            && keys.replaced_since(begun).await
        {
            return Failure::again("the credentials are replaced");
        }
        Failure::of_store(error, answer)
    }

    /// Opens the bucket in a region; returns whether that is new.
    fn moved_to(&self, region: &str) -> bool {
        let Ok((store, _)) = (self.open)(Some(region)) else {
            return false;
        };
        let mut opened = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let is_new = opened.0.as_deref() != Some(region);
        if is_new {
            *opened = (Some(region.to_string()), Arc::from(store));
        }
        is_new
    }

    pub(super) fn store(&self) -> Arc<dyn Objects> {
        let opened = self.store.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&opened.1)
    }
}

fn meta(object: &ObjectMeta) -> Meta {
    let tag = object.e_tag.as_deref().or(object.version.as_deref());
    Meta {
        size: object.size,
        version: Meta::version_of(tag.unwrap_or_default()),
        modified: object.last_modified.timestamp(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_one_however_they_are_quoted() {
        let meta = |tag: &str| Meta {
            size: 1,
            version: Meta::version_of(tag),
            modified: 0,
        };
        assert_eq!(meta("\"0x8D\""), meta("0x8D"));
        assert_eq!(meta("0x8D").tag().as_deref(), Some("\"0x8D\""));
        for no_tag in ["", "W/\"weak\"", "Sun, 22 Nov 2026 03:26:39 GMT", "\""] {
            assert_eq!(meta(no_tag).tag(), None, "{no_tag}");
        }
    }
}
