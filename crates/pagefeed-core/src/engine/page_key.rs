//! Keys of pages in the engine: a number and an epoch.

use std::hash::{BuildHasherDefault, Hasher};

/// A page or a bundle as it is read for an epoch: infilled documents differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PageKey {
    /// Number of the page, or key of the bundle.
    pub page: u64,
    pub epoch: u32,
}

/// Hashes keys of pages. They are not chosen to collide, and a plan has thousands.
#[derive(Default)]
pub(super) struct MultiplyHasher(u64);

pub(super) type PageHasher = BuildHasherDefault<MultiplyHasher>;

impl Hasher for MultiplyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    /// Hashes the epoch after the page; most are 0.
    fn write_u32(&mut self, value: u32) {
        self.0 ^= u64::from(value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
