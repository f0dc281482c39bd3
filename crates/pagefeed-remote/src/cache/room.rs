//! Names of the files of a cache, and making room: the oldest go first.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::segment::bytes_on_disk;

/// Share of the limit that is left after room is made.
const LEFT: (u64, u64) = (15, 16);
/// A draft this old belongs to a process that was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Name of a file: milliseconds since 1970, begin and size of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) age: u64,
    pub(super) start: u64,
    pub(super) size: u64,
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:012x}-{:x}-{:x}",
            self.age, self.start, self.size
        )
    }
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('-').map(|word| u64::from_str_radix(word, 16));
        let mut next = || numbers.next()?.ok();
        let name = Self {
            age: next()?,
            start: next()?,
            size: next()?,
        };
        let is_sound = name.size > 0 && name.start.checked_add(name.size).is_some();
        (is_sound && name.to_string() == text).then_some(name)
    }
}

/// Returns the files of one object, and removes drafts that no process will finish.
pub(super) fn names(folder: &Path) -> Vec<Name> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(text) = name.to_str() else { continue };
        match Name::parse(text) {
            Some(name) => names.push(name),
            None if text.ends_with(".draft") && is_abandoned(&entry) => {
                let _ = fs::remove_file(entry.path());
            }
            None => {}
        }
    }
    names
}

fn is_abandoned(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|state| state.modified());
    let age = modified.map(|then| SystemTime::now().duration_since(then));
    matches!(age, Ok(Ok(age)) if age > ABANDONED)
}

/// Removes the oldest files of all objects, if all and the `coming` bytes exceed
/// `capacity`. Several processes may do so at once: they choose the same files.
pub(super) fn make_room(folder: &Path, capacity: u64, coming: u64) {
    let objects: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let mut files: Vec<(Name, usize)> = Vec::new();
    for (n, object) in objects.iter().enumerate() {
        files.extend(names(object).into_iter().map(|name| (name, n)));
    }
    let on_disk = |name: &Name| bytes_on_disk(name.size);
    let mut size: u64 = coming + files.iter().map(|(name, _)| on_disk(name)).sum::<u64>();
    if size <= capacity {
        return;
    }
    files.sort_unstable();
    let left = capacity / LEFT.1 * LEFT.0;
    for (name, n) in files {
        if size <= left {
            break;
        }
        let _ = fs::remove_file(objects[n].join(name.to_string()));
        size -= on_disk(&name);
        // Only if nothing is in it.
        let _ = fs::remove_dir(&objects[n]);
    }
}
