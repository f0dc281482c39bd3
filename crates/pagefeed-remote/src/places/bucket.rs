//! Objects of one bucket, through object_store.

use std::ops::Range;

use futures_util::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta};

use crate::places::address::object_path;
use crate::places::uploads::Objects;
use crate::transport::body::Body;
use crate::transport::failure::Failure;
use crate::transport::observed;

/// The state of a file, as a server tells it.
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

pub(crate) struct Bucket(pub(crate) Box<dyn Objects>);

impl Bucket {
    pub(crate) async fn head(&self, key: &str) -> Result<Meta, Failure> {
        let options = GetOptions {
            head: true,
            ..GetOptions::default()
        };
        let path = object_path(key).map_err(Failure::Final)?;
        let (result, answer) = observed(self.0.get_opts(&path, options)).await;
        match result {
            Ok(found) => Ok(meta(&found.meta)),
            Err(error) => Err(Failure::of_store(&error, &answer)),
        }
    }

    /// Bytes of an object, and its state when they were read.
    pub(crate) async fn get(
        &self,
        key: &str,
        range: &Range<u64>,
        if_match: Option<String>,
    ) -> Result<(Body, Meta), Failure> {
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match,
            ..GetOptions::default()
        };
        let path = object_path(key).map_err(Failure::Final)?;
        let read = async {
            let found = self.0.get_opts(&path, options).await?;
            let meta = meta(&found.meta);
            let mut body = Body::of(range);
            let mut pieces = found.into_stream();
            while let Some(piece) = pieces.try_next().await? {
                body.push(piece);
            }
            Ok((body, meta))
        };
        let (result, answer) = observed(read).await;
        let (body, meta) = result.map_err(|error| Failure::of_store(&error, &answer))?;
        Ok((body, meta))
    }

    /// Objects whose keys begin with a prefix of whole names, in no order.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<(String, Meta)>, Failure> {
        let prefix = object_path(prefix.trim_matches('/')).map_err(Failure::Final)?;
        let prefix = (prefix != Path::default()).then_some(&prefix);
        let objects = self.0.list(prefix).try_collect::<Vec<ObjectMeta>>();
        let (result, answer) = observed(objects).await;
        let objects = result.map_err(|error| Failure::of_store(&error, &answer))?;
        let named = |object: ObjectMeta| (object.location.to_string(), meta(&object));
        Ok(objects.into_iter().map(named).collect())
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
