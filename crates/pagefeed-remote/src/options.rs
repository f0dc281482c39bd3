//! Settings of a storage, as the control plane made them of arguments and environment.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use pagefeed_core::error::Result;

/// Keys that the control plane found.
#[derive(Clone)]
pub struct Keys {
    /// Names them.
    pub id: String,
    /// Signs with them.
    pub secret: String,
    /// Goes with temporary ones.
    pub token: Option<String>,
    /// When they expire; nothing if they do not.
    pub expires: Option<SystemTime>,
}

/// A service that gives keys for a while, and others when it is asked again.
#[derive(Clone)]
pub struct Service {
    /// Its name, for messages.
    pub source: String,
    /// Settings of object_store that lead to it.
    pub settings: Vec<(String, String)>,
    /// Whether it belongs to this machine: no proxy is used, and it answers at once.
    pub is_near: bool,
    /// Sources that are not set up, if this one may not be there either.
    pub looked_at: Option<String>,
}

/// Source of the keys of Amazon's buckets.
pub enum Source {
    /// Nothing else is asked.
    Keys(Keys),
    /// It is asked for keys.
    Service(Service),
}

/// Function that finds keys. It may take seconds, and runs on its own thread.
pub type FindKeys = Arc<dyn Fn() -> Result<Source> + Send + Sync>;

/// Bytes and version of a file; the version may be empty.
pub type State = (u64, String);

/// Calls of a store that the user brings. What is overdue
/// ([`TimedOut`](std::io::ErrorKind::TimedOut)) may pass; other errors do not.
pub trait OwnStore: Send + Sync {
    /// The state of a file.
    fn head(&self, key: &str) -> Result<State>;

    /// Bytes of a file, and its state after they were read.
    fn read(&self, key: &str, begin: u64, end: u64) -> Result<(Bytes, State)>;

    /// URLs and states of the files below a folder, sorted by name.
    fn list(&self, folder: &str) -> Result<Vec<(String, State)>>;
}

/// Settings of a storage. Values were checked where they were read.
#[derive(Clone, Default)]
pub struct Options {
    /// Time for which a request is repeated while none of its answer arrives.
    pub deadline: Duration,
    /// Longest total wait where a server asks to wait.
    pub max_wait: Duration,
    /// Silence after which a request is sent again.
    pub timeout: Duration,
    /// Requests under way at a time, at most.
    pub max_in_flight: usize,
    /// Folder and bytes of the cache on a local disk.
    pub cache: Option<(String, u64)>,
    /// Credentials may be sent unencrypted.
    pub allow_http: bool,
    /// `Authorization` for web servers: sent to the server of the URL alone.
    pub authorization: Option<String>,
    /// Address of the hub.
    pub hub_endpoint: String,
    /// A file of certificates that are trusted too.
    pub ca_bundle: Option<String>,
    /// The hub's token.
    pub hub_token: Option<String>,
    /// Settings of each provider of buckets, which override those of the environment.
    pub providers: [Vec<(String, String)>; 3],
    /// Finds the keys of Amazon's buckets.
    pub keys: Option<FindKeys>,
    /// Names of secrets that did not travel to this process.
    pub lost: Vec<String>,
    /// A store of the user's own.
    pub store: Option<Arc<dyn OwnStore>>,
    /// Differs between stores where a name may mean different files.
    pub store_identity: String,
}

impl fmt::Debug for Options {
    /// Prints nothing: values may be secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").finish_non_exhaustive()
    }
}
