//! Column chunks as pages, as far as footers prove their contents: nothing
//! but footers is read.

use super::dictionary_range;
use super::offset_index::{LevelHistograms, PageLevels};
use crate::error::{Error, Kind, Result};
use crate::footer::Chunk;
use crate::index::chunk::{ChunkPages, Page};
use crate::index::chunk::{HOLDS_NULLS, NEEDS_DICTIONARY};
use crate::schema::Leaf;

/// The one page that a chunk of `num_rows` rows is.
pub fn whole(chunk: &Chunk, leaf: &Leaf, num_rows: u64) -> Result<ChunkPages> {
    super::check_values(chunk, leaf, num_rows)?;
    if chunk.num_values == 0 {
        return ChunkPages::new(None, &[], num_rows);
    }
    let levels = levels(chunk, leaf, num_rows)?;
    let first_page = chunk.data_page_offset;
    let dictionary = dictionary_range(chunk, first_page)?;
    if dictionary.is_none() && chunk.has_dictionary {
        return Err(unproven("where the dictionary ends"));
    }
    let flags = (u8::from(dictionary.is_some()) * NEEDS_DICTIONARY)
        | (u8::from(levels.num_nulls > 0) * HOLDS_NULLS);
    let page = Page {
        number: 0,
        offset: first_page,
        size: chunk.byte_range().end - first_page,
        num_rows,
        num_values: levels.num_values,
        flags,
    };
    Ok(ChunkPages {
        dictionary,
        pages: vec![page],
    })
}

/// Returns the counts of a whole chunk, from its levels or null counts. Writers
/// disagree on nulls of lists: some leave out null elements, some count empty lists.
fn levels(chunk: &Chunk, leaf: &Leaf, num_rows: u64) -> Result<PageLevels> {
    let counted = LevelHistograms::of_chunk(chunk).page(0, 1, num_rows, leaf)?;
    if let Some(levels) = counted {
        if levels.num_levels != chunk.num_values {
            return Err(Error::corrupt(format!(
                "the column chunk promises {} values, its level counts {}",
                chunk.num_values, levels.num_levels
            )));
        }
        return Ok(levels);
    }
    let nulls = match (leaf.max_repetition, leaf.max_definition) {
        (0, 0) => Some(0),
        (0, _) => chunk.num_nulls,
        _ => None,
    };
    let num_values = nulls.and_then(|nulls| chunk.num_values.checked_sub(nulls));
    let num_values = num_values.ok_or_else(|| unproven("how many values are not null"))?;
    Ok(PageLevels {
        num_rows,
        num_values,
        num_levels: chunk.num_values,
        num_nulls: 0,
    })
}

fn unproven(what: &str) -> Error {
    Error::new(
        Kind::Unsupported,
        format!(
            "the footer does not prove {what}: with page_index=True the page headers of such \
             files are read, which lie among their pages"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Codec;
    use crate::schema::ColumnSchema;
    use std::sync::Arc;

    const LISTS: &str = "message schema { optional group a (LIST) { repeated group list { \
                         optional int32 element; } } }";
    const NUMBERS: &str = "message schema { optional int32 a; }";

    /// The schema of column `a`.
    fn column(message: &str) -> Arc<ColumnSchema> {
        use parquet::schema::parser::parse_message_type;
        let tree = Arc::new(parse_message_type(message).unwrap());
        let file =
            parquet::file::writer::SerializedFileWriter::new(Vec::new(), tree, Arc::default());
        let bytes = file.unwrap().into_inner().unwrap();
        let size = bytes.len();
        let start = 4;
        let footer = crate::footer::Footer::parse(&bytes[start..size - 8], 4, "a").unwrap();
        Arc::new(ColumnSchema::resolve(&footer.schema, "a", false).unwrap())
    }

    fn chunk() -> Chunk {
        Chunk {
            codec: Codec::Snappy,
            num_values: 12,
            data_page_offset: 100,
            dictionary_page_offset: Some(4),
            total_compressed_size: 1000,
            dictionary_pages: None,
            has_dictionary: true,
            num_nulls: None,
            miscounts_nulls: false,
            repetition_levels: Vec::new(),
            definition_levels: Vec::new(),
            offset_index: None,
            column_index: None,
        }
    }

    #[test]
    fn counts_of_levels_or_nulls_prove_the_values() {
        let schema = column(LISTS);
        let leaf = &schema.leaves[0];
        let counted = Chunk {
            repetition_levels: vec![5, 7],
            definition_levels: vec![1, 1, 1, 9],
            ..chunk()
        };
        let found = whole(&counted, leaf, 5).unwrap();
        assert_eq!(found.dictionary, Some(4..100));
        let page = &found.pages[0];
        assert_eq!((page.offset, page.size), (100, 904));
        assert_eq!((page.num_rows, page.num_values), (5, 9));
        assert_eq!(page.flags, NEEDS_DICTIONARY | HOLDS_NULLS);
        let nulls = Chunk {
            num_nulls: Some(2),
            ..chunk()
        };
        let flat = column(NUMBERS);
        let found = whole(&nulls, &flat.leaves[0], 12).unwrap();
        assert_eq!(found.pages[0].num_values, 10);
        let kind = whole(&nulls, leaf, 5).unwrap_err().kind();
        assert_eq!(kind, Kind::Unsupported, "nulls of lists are not known");
    }

    #[test]
    fn what_is_not_proven_is_told() {
        let schema = column(LISTS);
        let leaf = &schema.leaves[0];
        let kind = |chunk: &Chunk| whole(chunk, leaf, 5).unwrap_err().kind();
        assert_eq!(kind(&chunk()), Kind::Unsupported);
        let odd = Chunk {
            repetition_levels: vec![5, 7],
            definition_levels: vec![1, 1, 1, 9],
            dictionary_page_offset: None,
            ..chunk()
        };
        assert_eq!(kind(&odd), Kind::Unsupported);
        let wrong = Chunk {
            repetition_levels: vec![5, 8],
            definition_levels: vec![1, 1, 1, 10],
            ..chunk()
        };
        assert_eq!(kind(&wrong), Kind::Corrupt);
        let negative = Chunk {
            num_nulls: Some(13),
            ..chunk()
        };
        let flat = column(NUMBERS);
        let error = whole(&negative, &flat.leaves[0], 12).unwrap_err();
        assert_eq!(error.kind(), Kind::Unsupported);
    }
}
