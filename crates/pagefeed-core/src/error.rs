//! One error type: what went wrong, and exactly where.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Once};

/// Result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of the failure; Python maps each kind to an exception class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The operating system refused (missing file, permission, I/O error).
    Io(io::ErrorKind),
    /// The bytes are not what the format promises.
    Corrupt,
    /// A stored checksum does not match the bytes.
    Checksum,
    /// A size or count is over a limit that protects memory or time.
    Limit,
    /// Valid Parquet that pagefeed does not read.
    Unsupported,
    /// The file or column is encrypted.
    Encrypted,
    /// The file has no such column.
    ColumnNotFound,
    /// The file is not the one that was indexed.
    Stale,
    /// The caller's argument cannot be right.
    Invalid,
    /// A number is not a token id, or does not fit the type asked for.
    TokenRange,
    /// An optional dependency of the control plane is not installed.
    MissingDependency,
    /// The work was cancelled (engine closed, or used after fork).
    Cancelled,
    /// A defect of pagefeed itself (a caught panic).
    Internal,
}

/// Place of an error; each layer fills in what it knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// Path of the file.
    pub file: Option<Arc<str>>,
    /// Row group number in the file.
    pub row_group: Option<u32>,
    /// Column, as a dotted path.
    pub column: Option<Arc<str>>,
    /// Page number within the column chunk (the dictionary page is not counted).
    pub page: Option<u64>,
    /// Byte offset in the file.
    pub offset: Option<u64>,
    /// Row of the batch, which messages leave out.
    pub batch_row: Option<usize>,
}

/// An error with its location. The message says what was expected, what was
/// found and, where there is one, what to do.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    kind: Kind,
    message: String,
    location: Location,
}

impl Error {
    /// An error of `kind`, not yet located.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            location: Location::default(),
        }))
    }

    /// The bytes are not what the format promises.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(Kind::Corrupt, message)
    }

    /// A size or count is over a limit.
    pub fn limit(message: impl Into<String>) -> Self {
        Self::new(Kind::Limit, message)
    }

    /// The system gives no thread.
    pub fn no_thread(error: &std::io::Error) -> Self {
        Self::limit(format!(
            "no thread could be started ({error}): raise the limit of processes or of \
             memory (ulimit -u, ulimit -v)"
        ))
    }

    /// Valid Parquet that pagefeed does not read.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, message)
    }

    /// The caller's argument cannot be right.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    /// A defect of pagefeed itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The kind of failure.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The message without the location.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Place of the error.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Names the file, unless a deeper layer already did.
    pub fn in_file(mut self, file: &str) -> Self {
        let shown = || shown_path(file).into();
        self.0.location.file.get_or_insert_with(shown);
        self
    }

    /// Names the column, unless a deeper layer already did.
    pub fn in_column(mut self, column: &str) -> Self {
        self.0.location.column.get_or_insert_with(|| column.into());
        self
    }

    /// Names row group and column, unless a deeper layer already did.
    pub fn in_chunk(mut self, row_group: u32, column: &str) -> Self {
        self.0.location.row_group.get_or_insert(row_group);
        self.0.location.column.get_or_insert_with(|| column.into());
        self
    }

    /// Names the page, unless a deeper layer already did.
    pub fn at_page(mut self, page: u64) -> Self {
        self.0.location.page.get_or_insert(page);
        self
    }

    /// Names the row of the batch, unless a deeper layer already did.
    pub fn at_batch_row(mut self, row: usize) -> Self {
        self.0.location.batch_row.get_or_insert(row);
        self
    }

    /// Names the byte offset, unless a deeper layer already did.
    pub fn at_offset(mut self, offset: u64) -> Self {
        self.0.location.offset.get_or_insert(offset);
        self
    }
}

/// A path as it is shown: an address of a web server without its query, which may be a key.
/// In buckets a question mark is a part of names.
pub fn shown_path(path: &str) -> &str {
    let is_web = path.starts_with("http://") || path.starts_with("https://");
    let end = path.find('?').filter(|_| is_web);
    &path[..end.unwrap_or(path.len())]
}

impl fmt::Display for Error {
    /// `file, row group 3, column tokens, page 7, offset 4711: message`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = self.location();
        let parts = [
            location.file.as_ref().map(|file| file.to_string()),
            location
                .row_group
                .map(|number| format!("row group {number}")),
            location
                .column
                .as_ref()
                .map(|name| format!("column {name}")),
            location.page.map(|number| format!("page {number}")),
            location.offset.map(|offset| format!("offset {offset}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if !parts.is_empty() {
            write!(f, "{}: ", parts.join(", "))?;
        }
        f.write_str(self.message())
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::new(Kind::Io(error.kind()), error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        use parquet::errors::ParquetError as P;
        match error {
            P::NYI(message) => Self::unsupported(message),
            P::General(message) | P::EOF(message) | P::ArrowError(message) => {
                Self::corrupt(message)
            }
            other => Self::corrupt(other.to_string()),
        }
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        use arrow_schema::ArrowError as A;
        match error {
            A::NotYetImplemented(message) => Self::unsupported(message),
            A::ParquetError(message) => Self::corrupt(message),
            A::IoError(_, error) => error.into(),
            other => Self::corrupt(other.to_string()),
        }
    }
}

/// Runs `work`, turning a panic into an [`Kind::Internal`] error: one bad page must
/// never take the process down.
pub fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch(work, |message| {
        let text = format!("pagefeed failed ({message}); this is a defect: please report it");
        Error::internal(text)
    })
}

/// Runs a reader of the `parquet` crate, which panics on some damaged input.
pub fn catch_damage<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch(read, |message| {
        Error::corrupt(format!(
            "the bytes are damaged: they cannot be read ({message})"
        ))
    })
}

/// Runs a library that panics where it should fail; `error` makes one of the message.
pub fn catch_library<T>(
    work: impl FnOnce() -> Result<T>,
    error: impl FnOnce(&str) -> Error,
) -> Result<T> {
    catch(work, error)
}

thread_local! {
    /// Whether a panic of this thread will become an error.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

fn catch<T>(work: impl FnOnce() -> Result<T>, error: impl FnOnce(&str) -> Error) -> Result<T> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        // A panic that becomes an error need not be printed as well.
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                print(info);
            }
        }));
    });
    let was_caught = IS_CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CAUGHT.set(was_caught);
    result.unwrap_or_else(|panic| {
        let message = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("unknown panic");
        Err(error(message))
    })
}
