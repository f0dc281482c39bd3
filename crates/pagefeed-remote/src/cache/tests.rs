//! The cache alone: what it finds, what it removes, and what befalls its files.

#![allow(clippy::single_range_in_vec_init, reason = "one range is asked for")]

use super::*;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("pagefeed-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn cache(&self, capacity: u64) -> PageCache {
        PageCache::new(self.0.to_str().unwrap(), capacity, Arc::default()).unwrap()
    }

    /// Files of all objects.
    fn files(&self) -> Vec<PathBuf> {
        let objects = fs::read_dir(self.0.join(FOLDER)).unwrap();
        // Others may remove a folder that is empty.
        let files = objects.flat_map(|entry| fs::read_dir(entry.unwrap().path()));
        files.flatten().map(|entry| entry.unwrap().path()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn object_bytes(range: Range<u64>) -> Bytes {
    range.map(|byte| (byte % 251) as u8).collect()
}

fn store(cache: &PageCache, object: u64, range: Range<u64>) {
    cache.store(object, range.start, &object_bytes(range));
}

#[test]
fn ranges_are_put_together_of_what_there_is() {
    let folder = Folder::new("cover");
    let cache = folder.cache(1 << 20);
    store(&cache, 1, 100..200);
    store(&cache, 1, 180..300);
    store(&cache, 1, 500..600);
    for reader in [&cache, &folder.cache(1 << 20)] {
        let cached = reader.find(1, &[50..550, 120..140]);
        assert_eq!(cached.missing, [50..100, 300..500]);
        let ranges: Vec<_> = cached
            .found
            .iter()
            .map(|(range, _)| range.clone())
            .collect();
        assert_eq!(ranges, [100..200, 200..300, 500..550, 120..140]);
        for (range, bytes) in cached.found {
            assert_eq!(bytes, object_bytes(range));
        }
        assert_eq!(reader.counters.counts().cache_hits, 4);
        assert_eq!(reader.find(2, &[100..200]).found, [], "another version");
    }
}

#[test]
fn the_oldest_go_first() {
    let folder = Folder::new("oldest");
    let cache = folder.cache(64_000);
    for n in 0..200u64 {
        store(&cache, n % 3, n * 1000..(n + 1) * 1000);
        std::thread::sleep(Duration::from_millis(1));
    }
    let names: Vec<Name> = (0..3)
        .flat_map(|object| room::names(&cache.folder_of(object)))
        .collect();
    let bytes: u64 = names.iter().map(|name| name.size).sum();
    assert!((50_000..=66_000).contains(&bytes), "{bytes}");
    let oldest = names.iter().map(|name| name.start).min().unwrap();
    assert!(oldest >= 130_000, "{oldest}");
    let other = folder.cache(64_000);
    assert_eq!(other.find(1, &[199_000..200_000]).missing.len(), 0);
}

#[test]
fn a_small_cache_is_no_larger_than_it_may_be() {
    // Ranges of many sizes, by several threads: headers and what is under way count too.
    for longest in [100, 3_000, 37_000] {
        let folder = Folder::new(&format!("small-{longest}"));
        let capacity = 300_000;
        let cache = folder.cache(capacity);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (cache, folder) = (&cache, &folder);
                scope.spawn(move || {
                    for turn in 0..5_000_000 / longest.max(10_000) {
                        let start = (turn * 4 + thread) * longest;
                        store(cache, thread, start..start + 1 + turn * 7 % longest);
                        let measure = || -> u64 {
                            let sizes = folder.files().into_iter();
                            let sizes = sizes.filter_map(|path| path.metadata().ok());
                            sizes.map(|state| state.len()).sum()
                        };
                        // One look may count a file that goes and the one that comes for it.
                        let all = (0..3).map(|_| measure());
                        let is_kept = all.clone().any(|all| all <= capacity + capacity / 128);
                        assert!(is_kept, "{longest}: {:?}", all.collect::<Vec<_>>());
                    }
                });
            }
        });
    }
}

#[test]
fn what_is_damaged_or_gone_is_missing() {
    let folder = Folder::new("damage");
    let cache = folder.cache(1 << 20);
    store(&cache, 1, 0..1000);
    store(&cache, 1, 1000..2000);
    let damaged = folder.files().into_iter();
    let damaged = damaged.min().unwrap();
    let mut bytes = fs::read(&damaged).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&damaged, bytes).unwrap();
    let cached = cache.find(1, &[0..2000]);
    assert_eq!((cached.found.len(), cached.missing.len()), (1, 1));
    assert!(!damaged.exists(), "it is not tried again");
    assert_eq!(cache.counters.counts().cache_failures, 1);
    for file in folder.files() {
        fs::remove_file(file).unwrap();
    }
    assert_eq!(cache.find(1, &[0..2000]).found, []);
    assert_eq!(
        cache.counters.counts().cache_failures,
        1,
        "another made room"
    );
}

#[test]
fn drafts_of_the_killed_harm_nobody() {
    let folder = Folder::new("drafts");
    let cache = folder.cache(1 << 20);
    store(&cache, 1, 0..1000);
    let draft = cache.folder_of(1).join(".1-0.draft");
    fs::write(&draft, b"half").unwrap();
    fs::write(cache.folder_of(1).join("of-somebody"), b"else").unwrap();
    assert_eq!(folder.cache(1 << 20).find(1, &[0..1000]).missing, []);
    assert!(draft.exists(), "its process may live");
    let old = SystemTime::now() - Duration::from_secs(7200);
    fs::File::options()
        .write(true)
        .open(&draft)
        .unwrap()
        .set_modified(old)
        .unwrap();
    assert_eq!(folder.cache(1 << 20).find(1, &[0..1000]).missing, []);
    assert!(!draft.exists());
    assert_eq!(folder.files().len(), 2);
}

#[test]
fn a_folder_that_takes_nothing_is_left_alone() {
    let folder = Folder::new("full");
    let cache = folder.cache(1 << 20);
    // A file where a folder should be: the user of the tests may write anywhere else.
    fs::write(cache.folder_of(1), b"").unwrap();
    store(&cache, 1, 0..1000);
    store(&cache, 2, 0..1000);
    assert_eq!(cache.counters.counts().cache_failures, 1);
    assert!(!cache.folder_of(2).exists(), "it rests");
    assert_eq!(cache.find(1, &[0..1000]).missing, [0..1000]);
}

#[test]
fn many_processes_share_a_folder() {
    let folder = Folder::new("shared");
    let caches: Vec<_> = (0..4).map(|_| folder.cache(100_000)).collect();
    std::thread::scope(|scope| {
        for (process, cache) in caches.iter().enumerate() {
            scope.spawn(move || {
                for turn in 0..100u64 {
                    let start = (turn * 7 + process as u64 * 13) % 50 * 2000;
                    let range = start..start + 2000;
                    let cached = cache.find(9, std::slice::from_ref(&range));
                    for (range, bytes) in cached.found {
                        assert_eq!(bytes, object_bytes(range));
                    }
                    if !cached.missing.is_empty() {
                        store(cache, 9, range);
                    }
                }
            });
        }
    });
}
