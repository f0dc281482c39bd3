//! Loops compiled twice: for any processor, and with AVX2.

/// Runs `work` with AVX2 if the processor has it. Its loops must be simple enough to be
/// inlined. Slices are arguments, since the compiler knows that arguments do not
/// overlap.
#[inline(always)]
pub(crate) fn vectorized<S, T, R>(
    source: &[S],
    target: &mut [T],
    work: impl FnOnce(&[S], &mut [T]) -> R,
) -> R {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { with_avx2(source, target, work) };
    }
    work(source, target)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<S, T, R>(source: &[S], target: &mut [T], work: impl FnOnce(&[S], &mut [T]) -> R) -> R {
    work(source, target)
}

/// Work whose loops are too long for a closure to be inlined. `run` must be
/// `#[inline(always)]`.
pub(crate) trait Loops {
    /// Does the work.
    fn run(self);
}

/// Runs loops with AVX2 if the processor has it.
#[inline(always)]
pub(crate) fn run_vectorized(loops: impl Loops) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { run_with_avx2(loops) };
    }
    loops.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_with_avx2(loops: impl Loops) {
    loops.run();
}
