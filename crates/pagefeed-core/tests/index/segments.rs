//! The persistent form: the same when opened, refused when damaged.

use std::fs;
use std::os::unix::fs::FileExt;

use pagefeed_core::Kind;
use pagefeed_core::index::Index;
use pagefeed_core::store::Store;
use parquet::file::properties::WriterVersion;

use std::sync::Arc;

use crate::common::{Folder, batch, build_with, records, write};

#[test]
fn indexes_of_one_column_are_joined_and_those_of_others_refused() {
    let folder = Folder::new("joined");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(400), WriterVersion::PARQUET_1_0, true, true);
    let paths = vec![path.to_str().unwrap().to_string(); 2];
    let build = |column| Arc::new(build_with(&paths, column, true).unwrap());
    let [tokens, again, id] = ["tokens", "tokens", "id"].map(build);
    let joined = Index::concat(&[Arc::clone(&tokens), again], &[(1, 1, 2), (0, 0, 1)]).unwrap();
    assert_eq!(joined.fingerprint(), tokens.fingerprint());
    // A column of texts has one leaf as well.
    for others in [
        [&tokens, &id],
        [&build("text"), &tokens],
        [&id, &build("text")],
    ] {
        let error = Index::concat(&others.map(Arc::clone), &[(0, 0, 1), (1, 0, 1)]);
        assert_eq!(error.err().map(|error| error.kind()), Some(Kind::Corrupt));
    }
    let outside = Index::concat(&[tokens], &[(0, 0, 3)]);
    assert_eq!(outside.err().map(|error| error.kind()), Some(Kind::Corrupt));
}

#[test]
fn a_saved_index_opens_to_the_same_pages() {
    let folder = Folder::new("segments");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(4000), WriterVersion::PARQUET_1_0, true, true);
    let paths = vec![path.to_str().unwrap().to_string(); 3];
    for column in ["tokens", "pair"] {
        let index = build_with(&paths, column, true).unwrap();
        let segment = folder.0.join("segment.arrow");
        index.save(&segment).unwrap();
        let opened = Index::open(&segment).unwrap();
        assert_eq!(records(&opened), records(&index));
        assert_eq!(opened.fingerprint(), index.fingerprint());
        assert_eq!(opened.column(), column);
        assert_eq!(opened.file_first_page(), index.file_first_page());
        assert_eq!(opened.file_first_row(), [0, 4000, 8000, 12000]);
        assert_eq!(opened.schema(1).field, index.schema(1).field);
        opened.check_files(&Store::new(4)).unwrap();
        let store = Store::new(4);
        let runs = |index: &Index| format!("{:?}", index.read_runs(&store, 17, true).unwrap());
        assert_eq!(runs(&opened), runs(&index));
    }
    let left: Vec<_> = fs::read_dir(&folder.0).unwrap().collect();
    assert_eq!(left.len(), 2, "no temporary file stays: {left:?}");
}

#[test]
fn a_damaged_segment_is_refused_and_never_panics() {
    let folder = Folder::new("damaged");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(1000), WriterVersion::PARQUET_1_0, true, true);
    let index = build_with(&[path.to_str().unwrap().to_string()], "tokens", true).unwrap();
    let segment = folder.0.join("segment.arrow");
    index.save(&segment).unwrap();
    let bytes = fs::read(&segment).unwrap();
    let damaged = folder.0.join("damaged.arrow");
    for cut in [0, 5, 10, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&damaged, &bytes[..cut]).unwrap();
        let error = Index::open(&damaged).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "{cut} bytes: {error}");
    }
    assert_eq!(Index::open(&path).err().unwrap().kind(), Kind::Corrupt);
}

#[test]
fn a_flipped_bit_in_any_byte_is_noticed() {
    let folder = Folder::new("flipped");
    let path = folder.0.join("a.parquet");
    write(&path, &batch(100), WriterVersion::PARQUET_1_0, true, true);
    let index = build_with(&[path.to_str().unwrap().to_string()], "tokens", true).unwrap();
    let segment = folder.0.join("segment.arrow");
    index.save(&segment).unwrap();
    let bytes = fs::read(&segment).unwrap();
    let file = fs::File::options().write(true).open(&segment).unwrap();
    for (position, byte) in bytes.iter().enumerate() {
        // Any bit changes a CRC: one in each byte suffices.
        let changed = byte ^ (1 << (position % 8));
        file.write_all_at(&[changed], position as u64).unwrap();
        let error = Index::open(&segment).err().unwrap();
        assert_eq!(error.kind(), Kind::Corrupt, "byte {position}: {error}");
        assert_eq!(error.location().file.as_deref(), segment.to_str());
        file.write_all_at(&[*byte], position as u64).unwrap();
    }
    assert_eq!(records(&Index::open(&segment).unwrap()), records(&index));
}
