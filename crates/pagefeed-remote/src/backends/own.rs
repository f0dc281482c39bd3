//! A store that the user brings: its calls block, each on a separate thread.

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

use pagefeed_core::error::{Error, Kind, Result};

use crate::backends::bucket::Meta;
use crate::options::{OwnStore, State};
use crate::transport::body::Body;
use crate::transport::failure::Failure;
use crate::transport::pulse::asked;

type Store = Option<Arc<dyn OwnStore>>;
type Answer<T> = Result<T, Failure>;

pub(crate) async fn head(store: &Store, key: &str) -> Answer<Meta> {
    let key = key.to_string();
    called(store, move |store| store.head(&key)).await.map(meta)
}

/// Bytes of a file, and its state after they were read.
pub(crate) async fn get(store: &Store, key: &str, range: &Range<u64>) -> Answer<(Body, Meta)> {
    let (key, begin, end) = (key.to_string(), range.start, range.end);
    let read = called(store, move |store| store.read(&key, begin, end));
    let (bytes, state) = read.await?;
    let mut body = Body::of(range);
    body.push(bytes);
    Ok((body, meta(state)))
}

/// Files below a folder.
pub(crate) async fn list(store: &Store, folder: &str) -> Answer<Vec<(String, State)>> {
    let folder = folder.to_string();
    called(store, move |store| store.list(&folder)).await
}

/// Waits for a call. It continues alone if no caller waits any more: nothing can stop it.
async fn called<T: Send + 'static>(
    store: &Store,
    call: impl FnOnce(&dyn OwnStore) -> Result<T> + Send + 'static,
) -> Answer<T> {
    let none = || Error::invalid("store:// names files of a store: give it as store=");
    let store = store.clone().ok_or_else(none).map_err(Failure::Final)?;
    asked();
    let done = tokio::task::spawn_blocking(move || call(&*store)).await;
    done.unwrap_or_else(|_| Err(Error::internal("a call of the store died")))
        .map_err(|error| match error.kind() {
            Kind::Io(ErrorKind::TimedOut) => Failure::again(error.message()),
            _ => Failure::Final(error),
        })
}

pub(crate) fn meta((size, version): State) -> Meta {
    Meta {
        size,
        version: Meta::version_of(&version),
        modified: 0,
    }
}
