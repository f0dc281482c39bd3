//! Levels of one bit, as runs.

use crate::thrift::put_varint;

/// Levels in the format's hybrid encoding, of which runs alone are used.
#[derive(Debug, Default)]
pub struct Runs {
    bytes: Vec<u8>,
    level: u8,
    length: usize,
}

impl Runs {
    /// Appends a level some times.
    pub fn push(&mut self, level: u8, times: usize) {
        if level != self.level && times > 0 {
            self.end();
            self.level = level;
        }
        self.length += times;
    }

    /// Appends all of it to `page`, after its length, and empties it.
    pub fn drain_into(&mut self, page: &mut Vec<u8>) {
        self.end();
        // A page has less than 2**31 bytes, and a level takes no more than a value.
        page.extend_from_slice(&(self.bytes.len() as u32).to_le_bytes());
        page.append(&mut self.bytes);
    }

    fn end(&mut self) {
        if self.length > 0 {
            put_varint(&mut self.bytes, (self.length as u64) << 1);
            self.bytes.push(self.level);
            self.length = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_levels_are_one_run() {
        let mut runs = Runs::default();
        for (level, times) in [(0, 1), (1, 0), (0, 1), (1, 100), (1, 28)] {
            runs.push(level, times);
        }
        let mut page = vec![9];
        runs.drain_into(&mut page);
        assert_eq!(page, [9, 5, 0, 0, 0, 4, 0, 0x80, 0x02, 1]);
        page.clear();
        runs.drain_into(&mut page);
        assert_eq!(page, [0; 4]);
    }
}
