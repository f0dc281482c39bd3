//! Rows of batches: numbered through consecutive batches, or batch by batch.

use crate::error::{Error, Result};

/// Rows of consecutive batches, batch by batch.
#[derive(Debug, PartialEq, Eq)]
pub struct Destinations {
    /// Destinations of batch `b`: `batch_offsets[b]..batch_offsets[b + 1]`.
    pub batch_offsets: Vec<u32>,
    /// Row in its batch, for each destination.
    pub rows: Vec<u32>,
}

impl Destinations {
    /// Divides `destinations`, which rise from batch to batch, among `num_batches` batches.
    pub fn new(destinations: &[i64], num_batches: usize, batch_rows: usize) -> Result<Self> {
        let batch_rows = batch_rows as i64;
        let mut batch_offsets = Vec::with_capacity(num_batches + 1);
        let mut rows = Vec::with_capacity(destinations.len());
        batch_offsets.push(0);
        let mut begin = 0;
        for &destination in destinations {
            while destination >= begin + batch_rows && batch_offsets.len() < num_batches {
                batch_offsets.push(rows.len() as u32);
                begin += batch_rows;
            }
            let row = destination.saturating_sub(begin);
            if !(0..batch_rows).contains(&row) || num_batches == 0 {
                return Err(Error::invalid(format!(
                    "row {destination} of a plan of {num_batches} batches of {batch_rows} rows is in \
                     none of them, or in one before that of the row before it"
                )));
            }
            rows.push(row as u32);
        }
        batch_offsets.resize(num_batches + 1, rows.len() as u32);
        Ok(Self {
            batch_offsets,
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn rows_are_divided_among_batches_of_which_some_are_empty() {
        let destinations = Destinations::new(&[1, 0, 9, 11, 11], 6, 3).unwrap();
        assert_eq!(destinations.batch_offsets, [0, 2, 2, 2, 5, 5, 5]);
        assert_eq!(destinations.rows, [1, 0, 0, 2, 2]);
        assert_eq!(Destinations::new(&[], 0, 3).unwrap().batch_offsets, [0]);
        assert_eq!(
            Destinations::new(&[], 2, 3).unwrap().batch_offsets,
            [0, 0, 0]
        );
    }

    #[test]
    fn rows_outside_are_refused() {
        for (destinations, num_batches) in [
            (&[0, 6][..], 2),
            (&[-1], 2),
            (&[4, 2], 2),
            (&[0], 0),
            (&[i64::MAX], 2),
            (&[i64::MIN], 2),
        ] {
            let error = Destinations::new(destinations, num_batches, 3).unwrap_err();
            assert_eq!(error.kind(), Kind::Invalid);
        }
    }
}
