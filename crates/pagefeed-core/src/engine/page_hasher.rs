//! How pages are found by their numbers.

use std::hash::{BuildHasherDefault, Hasher};

/// Hashes page numbers. They are not chosen to collide, and a plan has thousands.
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
}
