//! Memory fetched into the processor's cache before it is used: what a batch needs
//! lies all over the memory, and one miss after the other takes longer than the work.

/// Prefetches the cache line of `address`, which may be any address.
#[inline(always)]
pub(crate) fn fetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: any address may be fetched; one that is not mapped is not.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
