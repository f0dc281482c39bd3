//! Limits checked before every allocation. They are far above what writers
//! produce and far below what would hurt.

use std::cell::Cell;

use crate::error::{Error, Result};

/// Largest footer read, in bytes.
pub const MAX_FOOTER_BYTES: u64 = 256 << 20;
/// Deepest nesting of thrift structures.
pub const MAX_THRIFT_DEPTH: usize = 64;
/// Most elements of a schema.
pub const MAX_SCHEMA_ELEMENTS: usize = 100_000;
/// Deepest nesting of a schema.
pub const MAX_SCHEMA_DEPTH: usize = 100;
/// Largest page header, in bytes (statistics of long texts live in it).
pub const MAX_PAGE_HEADER_BYTES: usize = 16 << 20;
/// Largest page as stored, in bytes.
pub const MAX_COMPRESSED_PAGE_BYTES: usize = 1 << 30;
/// Largest page once decompressed, in bytes: what the format's sizes of 32 bits with a
/// sign can say. Against few bytes that claim to be many,
/// [`Codec::max_decompressed_size`](crate::codec::Codec::max_decompressed_size) bounds
/// the size by that stored; and memory is only taken as it is written to.
pub const MAX_UNCOMPRESSED_PAGE_BYTES: usize = i32::MAX as usize;
/// Most bytes to which a page may decode: a few bytes can stand for very many values.
pub const MAX_DECODED_PAGE_BYTES: usize = 4 << 30;
/// Most bytes of nulls in values and lists of fixed size, whose size a schema of a few
/// bytes sets.
pub const MAX_PADDING_BYTES: usize = 512 << 20;
/// Most bytes of the levels of a page, which may be compressed to few.
pub const MAX_LEVEL_BYTES: usize = 64 << 20;
/// Most bytes of a page that is decompressed for its levels alone, where that cannot be
/// done in part: the default memory of a loader.
pub const MAX_COUNTED_PAGE_BYTES: usize = 1 << 30;
/// Most bytes of a file's page indexes, of one column.
pub const MAX_PAGE_INDEX_BYTES: u64 = 1 << 30;
/// Most bytes read from a file at once: a record may span several pages.
pub const MAX_READ_BYTES: usize = 4 << 30;

thread_local! {
    /// Most bytes that a page decoded by this thread may take.
    static MOST_BYTES: Cell<u64> = const { Cell::new(MAX_DECODED_PAGE_BYTES as u64) };
}

/// Sets the limit of decoded bytes of a page for this thread.
pub fn limit_pages(bytes: usize) {
    MOST_BYTES.set(bytes.min(MAX_DECODED_PAGE_BYTES) as u64);
}

/// Does `work` with another limit of decoded bytes of a page.
pub fn with_pages_below<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    struct Before(u64);

    impl Drop for Before {
        fn drop(&mut self) {
            MOST_BYTES.set(self.0);
        }
    }

    let _before = Before(MOST_BYTES.get());
    limit_pages(bytes);
    work()
}

/// Refuses a page that decodes to more bytes than it may.
pub(crate) fn check_page_size(size: u64) -> Result<u64> {
    let most = MOST_BYTES.get();
    if size <= most {
        return Ok(size);
    }
    let advice = match most < MAX_DECODED_PAGE_BYTES as u64 {
        true => ": give more memory, or write the file again with smaller pages",
        false => "",
    };
    Err(Error::limit(format!(
        "a page decodes to {size} bytes, the limit is {most}{advice}"
    )))
}
