//! No huge pages: on systems other than Linux, and in simulated worlds, whose allocator counts.

/// Drops the memory of an empty vector, if it is too little for `count` values.
pub(crate) fn renew<T>(values: &mut Vec<T>, count: usize) {
    if values.is_empty() && values.capacity() < count {
        *values = Vec::new(); // Nothing of what was there is worth a copy.
    }
}
