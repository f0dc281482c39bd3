//! Files that cannot be right, or are not what was indexed.

use std::fs;

use pagefeed_core::Kind;
use pagefeed_core::index::{BuildOptions, Index};
use pagefeed_core::storage::{FileId, Storage};
use pagefeed_core::store::Store;

use crate::common::{Folder, build_with};
use crate::handmade::{HandMade, Part};
use crate::odd::split_records;

#[test]
fn a_file_that_changed_is_refused_by_name() {
    let folder = Folder::new("stale");
    let rows: Vec<u8> = (0..40).map(|level| u8::from(level % 4 != 0)).collect();
    let bytes = HandMade::new(10, vec![Part::V1(rows)]).bytes();
    for (name, change) in [
        (
            "appended",
            (|path| fs::write(path, [0; 5000]).unwrap()) as fn(&str),
        ),
        ("truncated", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_len(20).unwrap();
        }),
        ("touched", |path| {
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .unwrap();
        }),
        ("replaced", |path| {
            let copy = format!("{path}.copy");
            fs::copy(path, &copy).unwrap();
            fs::rename(copy, path).unwrap();
        }),
    ] {
        let path = folder.file(name, &bytes);
        let index = build_with(std::slice::from_ref(&path), "tokens", true).unwrap();
        let store = Store::new(4);
        index.read_runs(&store, 0, true).unwrap();
        change(&path);
        for error in [
            index.check_files(&store).unwrap_err(),
            index.read_runs(&store, 0, true).unwrap_err(),
            index.read_runs(&Store::new(4), 0, true).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Stale, "{name}: {error}");
            assert_eq!(error.location().file.as_deref(), Some(&*path));
        }
    }
    let path = folder.file("deleted", &bytes);
    let index = build_with(std::slice::from_ref(&path), "tokens", true).unwrap();
    let store = Store::new(4);
    index.read_runs(&store, 0, true).unwrap();
    fs::remove_file(&path).unwrap();
    let error = index.read_runs(&store, 0, true).unwrap_err();
    assert_eq!(error.kind(), Kind::Stale, "{error}");
    let error = index.check_files(&store).unwrap_err();
    assert_eq!(error.kind(), Kind::Io(std::io::ErrorKind::NotFound));
    assert_eq!(error.location().file.as_deref(), Some(&*path));
}

#[test]
fn an_index_built_again_reads_the_new_file_with_the_old_store() {
    let folder = Folder::new("rebuilt");
    let store = Store::new(4);
    let path = folder.file("a", &HandMade::new(1, vec![Part::V1(vec![0])]).bytes());
    let options = BuildOptions {
        use_page_index: true,
        by_row_group: false,
        missing_as_null: false,
        naming: None,
        verify_checksums: true,
        num_threads: 1,
        cancel: Default::default(),
        num_done: Default::default(),
    };
    let build = || Index::build(&store, std::slice::from_ref(&path), "tokens", &options).unwrap();
    build().read_runs(&store, 0, true).unwrap();
    let new = folder.file("b", &HandMade::new(2, vec![Part::V1(vec![0, 0])]).bytes());
    fs::rename(new, &path).unwrap();
    assert_eq!(build().num_rows(), 2);
    assert_eq!(build().read_runs(&store, 0, true).unwrap()[0].num_rows, 2);
}

#[test]
fn a_column_that_all_files_lack_is_refused_though_rows_may_be_null() {
    let folder = Folder::new("lacking");
    let path = folder.file("a", &HandMade::new(1, vec![Part::V1(vec![0])]).bytes());
    let options = BuildOptions {
        use_page_index: true,
        by_row_group: false,
        missing_as_null: true,
        naming: None,
        verify_checksums: true,
        num_threads: 1,
        cancel: Default::default(),
        num_done: Default::default(),
    };
    let build = |column| {
        Index::build(
            &Store::new(4),
            std::slice::from_ref(&path),
            column,
            &options,
        )
    };
    assert_eq!(build("tokens").unwrap().num_rows(), 1);
    let error = build("other").err().unwrap();
    assert_eq!(error.kind(), Kind::ColumnNotFound);
    assert_eq!(error.location().file.as_deref(), Some(&*path));
}

#[test]
fn counts_that_do_not_add_up_are_refused() {
    let folder = Folder::new("lies");
    let parts = || vec![Part::V1(vec![0, 1, 0]), Part::V1(vec![0, 1])];
    let good = HandMade::new(3, parts());
    assert!(build_with(&[folder.file("good", &good.bytes())], "tokens", true).is_ok());
    let mut few_rows = HandMade::new(2, parts());
    few_rows.extra_values = 0;
    let mut more_values = HandMade::new(3, parts());
    more_values.extra_values = 1;
    let mut fewer_values = HandMade::new(3, parts());
    fewer_values.extra_values = -1;
    let mut behind_footer = HandMade::new(3, parts());
    behind_footer.extra_size = 1_000_000;
    let mid = HandMade::new(1, vec![Part::V1(vec![1, 1, 0])]);
    let late = HandMade::new(
        2,
        vec![Part::V1(vec![0]), Part::Dictionary(1), Part::V1(vec![0])],
    );
    for (name, file) in [
        ("few rows", few_rows),
        ("more values", more_values),
        ("fewer values", fewer_values),
        ("after the footer", behind_footer),
        ("first page mid-record", mid),
        ("late dictionary", late),
    ] {
        let path = folder.file("bad", &file.bytes());
        let error = build_with(std::slice::from_ref(&path), "tokens", true)
            .err()
            .unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{name}: {error}");
        assert_eq!(error.location().file.as_deref(), Some(&*path), "{name}");
        assert_eq!(error.location().row_group, Some(0), "{name}");
    }
}

#[test]
fn wrong_offset_indexes_are_refused_and_say_what_to_do() {
    let folder = Folder::new("wrong");
    let parts = || vec![Part::V1(vec![0, 1, 0]), Part::V1(vec![0, 1])];
    let with = |rows: &[i64], parts| {
        let mut file = HandMade::new(3, parts);
        file.first_rows = Some(rows.to_vec());
        folder.file("a", &file.bytes())
    };
    assert_eq!(
        build_with(&[with(&[0, 2], parts())], "tokens", true)
            .unwrap()
            .num_pages(),
        2
    );
    let mid = || vec![Part::V1(vec![0, 1, 0, 0]), Part::V1(vec![1])];
    for path in [
        with(&[0, 1], parts()),
        with(&[1, 2], parts()),
        with(&[0, 9], parts()),
        with(&[0], parts()),
        with(&[0, 3], mid()),
        with(&[0, 2], mid()),
    ] {
        let file = fs::read(&path).unwrap();
        let error = build_with(&[path], "tokens", true).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{error}");
        assert!(error.message().contains("page_index=False"), "{error}");
        let path = folder.file("b", &file);
        assert_eq!(build_with(&[path], "tokens", false).unwrap().num_rows(), 3);
    }
}

#[test]
fn files_that_are_not_parquet_say_what_was_found() {
    let folder = Folder::new("garbage");
    let good = HandMade::new(1, vec![Part::V1(vec![0])]).bytes();
    let ending = |end: &[u8]| [&good[..good.len() - end.len()], end].concat();
    for (bytes, kind, found) in [
        (vec![], Kind::Corrupt, "0 bytes"),
        (good[..good.len() - 3].to_vec(), Kind::Corrupt, "PAR1"),
        (ending(b"PARE"), Kind::Encrypted, "encrypted"),
        (ending(b"\xff\xff\xff\x7fPAR1"), Kind::Limit, "2147483647"),
        (ending(b"\xff\xff\x00\x00PAR1"), Kind::Corrupt, "65535"),
    ] {
        let path = folder.file("a", &bytes);
        let error = build_with(std::slice::from_ref(&path), "tokens", true)
            .err()
            .unwrap();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(found), "{error}");
        assert_eq!(error.location().file.as_deref(), Some(&*path));
    }
    let good = folder.file("good", &good);
    let error = build_with(std::slice::from_ref(&good), "token", true)
        .err()
        .unwrap();
    assert_eq!(error.kind(), Kind::ColumnNotFound);
    assert!(
        error.message().contains("did you mean \"tokens\"?"),
        "{error}"
    );
    let folder = folder.0.to_str().unwrap().to_string();
    let error = build_with(&[good, folder], "tokens", true).err().unwrap();
    assert_eq!(error.kind(), Kind::Io(std::io::ErrorKind::IsADirectory));
    let error = build_with(&[], "tokens", true).err().unwrap();
    assert_eq!(error.kind(), Kind::Invalid);
}

#[test]
fn any_flipped_bit_gives_an_error_or_an_index() {
    let folder = Folder::new("flips");
    let mut file = HandMade::new(3, split_records().into_iter().map(Part::V1).collect());
    file.parts.insert(0, Part::Dictionary(3));
    let bytes = file.bytes();
    for position in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[position] ^= 1 << bit;
            let path = folder.file("a", &bytes);
            match build_with(&[path], "tokens", true) {
                Err(error) => assert_ne!(error.kind(), Kind::Internal, "{error}"),
                Ok(index) => assert_eq!(index.num_rows(), 3),
            }
        }
    }
}

/// Files of a folder that this process has open.
fn num_open(folder: &Folder) -> usize {
    let prefix = folder.0.to_str().unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| {
        let target = fs::read_link(entry.unwrap().path()).ok()?;
        target.to_str()?.starts_with(prefix).then_some(())
    });
    open.count()
}

fn many_files(folder: &Folder, count: usize) -> Vec<FileId> {
    let bytes = HandMade::new(1, vec![Part::V1(vec![0])]).bytes();
    let files = (0..count).map(|number| {
        let path = folder.file(&format!("{number}"), &bytes);
        let stamp = Store::new(16).stamp(&path).unwrap();
        let path = path.into();
        FileId { path, stamp }
    });
    files.collect()
}

/// Writes bytes in place, and puts the old time back.
fn rewrite(path: &str, bytes: &[u8]) {
    let modified = fs::metadata(path).unwrap().modified().unwrap();
    let mut file = fs::File::options().write(true).open(path).unwrap();
    std::io::Write::write_all(&mut file, bytes).unwrap();
    file.set_modified(modified).unwrap();
}

#[test]
fn other_bytes_with_the_old_size_and_time_are_refused_and_other_permissions_are_not() {
    let folder = Folder::new("rewritten");
    let rows: Vec<u8> = (0..40).map(|level| u8::from(level % 4 != 0)).collect();
    let bytes = HandMade::new(10, vec![Part::V1(rows)]).bytes();
    let path = folder.file("a", &bytes);
    let index = build_with(std::slice::from_ref(&path), "tokens", true).unwrap();
    let (store, file) = (Store::new(16), index.file(0));
    store.read(&file, 0..4).unwrap();
    fs::hard_link(&path, format!("{path}.link")).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for store in [&store, &Store::new(16)] {
        store.read(&file, 0..4).unwrap();
        store.read(&file, 0..4).unwrap();
        index.check_files(store).unwrap();
        assert_eq!(index.changed_files(store, &[0], false).unwrap(), []);
    }
    let mut other = bytes.clone();
    other[6] ^= 1;
    rewrite(&path, &other);
    for store in [&store, &Store::new(16)] {
        for error in [
            store.read(&file, 0..4).unwrap_err(),
            index.check_files(store).unwrap_err(),
        ] {
            assert_eq!(error.kind(), Kind::Stale);
            assert!(
                error
                    .to_string()
                    .contains("it was rewritten in place, with its old time")
            );
        }
        assert_eq!(index.changed_files(store, &[0], false).unwrap(), [0]);
    }
    rewrite(&path, &bytes);
    store.read(&file, 0..4).unwrap();
}

#[test]
fn descriptors_stay_within_the_limit() {
    let folder = Folder::new("descriptors");
    let store = Store::new(16);
    let files = many_files(&folder, 100);
    for file in files.iter().chain(&files) {
        assert_eq!(&store.read(file, 0..4).unwrap()[..], b"PAR1");
        store.will_need(file, 0..4);
    }
    assert!((1..=16).contains(&num_open(&folder)));
    assert!(store.read(&files[0], 5..files[0].stamp.size + 1).is_err());
    drop(store);
    assert_eq!(num_open(&folder), 0);
}

#[test]
fn descriptors_of_many_stores_stay_within_the_limit_of_one() {
    let folder = Folder::new("stores");
    let files = many_files(&folder, 600);
    let stores: Vec<Store> = files.iter().map(|_| Store::default()).collect();
    for (store, file) in stores.iter().zip(&files) {
        assert_eq!(&store.read(file, 0..4).unwrap()[..], b"PAR1");
    }
    assert!((1..=512).contains(&num_open(&folder)));
    // Two stores of one file have one descriptor.
    let before = num_open(&folder);
    let last = files.last().unwrap();
    assert_eq!(&stores[0].read(last, 0..4).unwrap()[..], b"PAR1");
    assert_eq!(num_open(&folder), before);
    drop(stores);
    assert_eq!(num_open(&folder), 0);
}
