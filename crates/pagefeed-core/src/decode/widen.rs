//! Tokens copied to the type a batch asks for.

use std::ops::Range;

use super::Tokens;

impl Tokens {
    /// Copies the tokens in `range` to `output`, which is as long.
    ///
    /// # Panics
    /// If the range is not inside the tokens, or of another length than `output`.
    pub fn copy_to_i64(&self, range: Range<usize>, output: &mut [i64]) {
        match self {
            Self::U16(values) => copy(&values[range], output),
            Self::I32(values) => copy(&values[range], output),
            Self::U32(values) => copy(&values[range], output),
            Self::I64(values) => output.copy_from_slice(&values[range]),
        }
    }
}

fn copy<T: Copy + Into<i64>>(values: &[T], output: &mut [i64]) {
    assert_eq!(values.len(), output.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { copy_avx2(values, output) };
    }
    copy_each(values, output);
}

/// The same loop, which the compiler turns into wider instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn copy_avx2<T: Copy + Into<i64>>(values: &[T], output: &mut [i64]) {
    copy_each(values, output);
}

#[inline(always)]
fn copy_each<T: Copy + Into<i64>>(values: &[T], output: &mut [i64]) {
    for (to, value) in output.iter_mut().zip(values) {
        *to = (*value).into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_is_copied() {
        for tokens in [
            Tokens::U16((0..99).collect()),
            Tokens::I32((0..99).collect()),
            Tokens::U32((0..99).collect()),
            Tokens::I64((0..99).collect()),
        ] {
            let mut output = [0; 90];
            tokens.copy_to_i64(5..95, &mut output);
            assert!(output.iter().copied().eq(5..95));
        }
        let mut output = [0];
        Tokens::I32(vec![-7]).copy_to_i64(0..1, &mut output);
        assert_eq!(output, [-7]);
    }
}
