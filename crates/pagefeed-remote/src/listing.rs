//! Lists folders of buckets: page by page, each tried again alone, and large folders by
//! the folders in them, many at a time.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use pagefeed_core::error::{Error, Kind, Result};

use crate::address::{Address, Object, object_path};
use crate::backends::bucket::{Bucket, Meta, Page};
use crate::backends::own;
use crate::live::{Listed, Live, listed};

/// Objects of a folder, and folders in it that are still to be listed.
type Walked = (Vec<(String, Meta)>, Vec<String>);

impl Live {
    /// Files of a bucket below a folder, sorted by name.
    pub(crate) async fn list(&self, url: &str) -> Result<Vec<Listed>> {
        let address = Address::parse(url)?;
        if let Address::Own(folder) = &address {
            let list = || own::list(&self.options.store, folder);
            let files = self.retried(list).await?.into_iter();
            let noted = files.map(|(url, state)| {
                let meta = own::meta(state);
                self.note(&url, &meta);
                listed(url, meta)
            });
            return Ok(noted.collect());
        }
        let Address::Object(Object {
            provider,
            bucket,
            key,
        }) = address
        else {
            return Err(Error::unsupported(
                "web servers do not list folders: name the files one by one",
            ));
        };
        let objects = self.bucket(provider, &bucket)?;
        let folder = object_path(key.strip_suffix('/').unwrap_or(&key))?.to_string();
        let prefix = if folder.is_empty() {
            folder
        } else {
            format!("{folder}/")
        };
        let mut objects_below = Vec::new();
        let mut walks = FuturesUnordered::new();
        walks.push(self.walk(&objects, prefix));
        while let Some(walked) = walks.next().await {
            let (objects_there, folders) = walked?;
            objects_below.extend(objects_there);
            for folder in folders {
                walks.push(self.walk(&objects, folder));
            }
        }
        objects_below.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        // Pages may overlap.
        objects_below.dedup_by(|left, right| left.0 == right.0);
        let (scheme, _) = url.split_once("://").unwrap_or_default();
        let listed = objects_below.into_iter().map(|(name, meta)| {
            let url = format!("{scheme}://{bucket}/{name}");
            self.note(&url, &meta);
            listed(url, meta)
        });
        Ok(listed.collect())
    }

    /// Lists a folder: all of it if one page holds it or few folders divide it,
    /// otherwise its direct entries.
    async fn walk(&self, bucket: &Bucket, prefix: String) -> Result<Walked> {
        let first = self.page(bucket, &prefix, false, None).await?;
        let Some(mut next) = first.next else {
            return Ok((first.objects, Vec::new()));
        };
        let divided = self.page(bucket, &prefix, true, None).await?;
        if divided.next.is_none() {
            return Ok((divided.objects, divided.folders));
        }
        let (mut objects, mut tokens) = (first.objects, HashSet::new());
        let (mut begins, mut moved) = (None, Instant::now());
        loop {
            let page = self
                .page(bucket, &prefix, false, Some(next.clone()))
                .await?;
            let first = page.objects.first().map(|(name, _)| name.clone());
            if first.is_some() && first != begins {
                (begins, moved) = (first, Instant::now());
            }
            objects.extend(page.objects);
            if !tokens.insert(next) || moved.elapsed() > self.options.deadline {
                return Err(Error::new(
                    Kind::Io(ErrorKind::InvalidData),
                    format!(
                        "the list of {prefix:?} does not end: after {} pages the storage repeats \
                         its token, or brings no further object; name the files one by one, or \
                         use a storage that lists its objects",
                        tokens.len()
                    ),
                ));
            }
            match page.next {
                Some(token) => next = token,
                None => return Ok((objects, Vec::new())),
            }
        }
    }

    async fn page(
        &self,
        bucket: &Bucket,
        prefix: &str,
        by_folder: bool,
        next: Option<String>,
    ) -> Result<Page> {
        let _permit = self.questions.acquire().await;
        self.retried(|| bucket.page(prefix, by_folder, next.clone()))
            .await
    }
}
