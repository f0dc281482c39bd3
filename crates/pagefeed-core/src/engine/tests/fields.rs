//! Fields of batches that the engine writes in one piece, or page by page.

use super::*;

/// The borders that come with a batch.
pub fn borders(batch: &Batch) -> Vec<usize> {
    let bytes = &batch.bytes()[batch.range(Field::CuSeqlens)];
    let borders = bytes
        .chunks_exact(4)
        .map(|bytes| i32::from_ne_bytes(bytes.try_into().unwrap()));
    let borders = borders.take(batch.made().unwrap().num_borders);
    borders.map(|border| border as usize).collect()
}

/// Borders of a batch of a plan: those of rows of pages, and of what is not written.
fn expected_borders(plan: &Plan, batch: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..=ROWS).map(|row| row * LENGTH).collect();
    let segments = plan.batch_offsets[batch] as usize..plan.batch_offsets[batch + 1] as usize;
    for segment in segments.filter(|&segment| plan.num_tokens[segment] > 0) {
        let start = plan.destination_row[segment] as usize * LENGTH
            + plan.destination_offset[segment] as usize;
        let row_starts = if plan.row[segment] == 0 { 0 } else { 20 };
        let first = row_starts + plan.first_token[segment] as usize;
        let end = start + plan.num_tokens[segment] as usize;
        all.extend([start, end]);
        // Rows 0 and 2 meet at token 20.
        let meet = (start + 20).checked_sub(first);
        all.extend(meet.filter(|meet| (start..end).contains(meet)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

#[test]
fn borders_are_those_of_the_plan_at_any_budget() {
    for (seed, room) in (0..12).zip([0, 900, 5_000, 1 << 20].into_iter().cycle()) {
        let mut random = Random(seed);
        let mut config = config(2, 0, TokenType::I32);
        let wanted = [Field::CuSeqlens, Field::Labels];
        config.layout.fields = Fields::new(&wanted, false, false);
        config.budget = config.batch_bytes() + room;
        let engine = Engine::new(Arc::new(Formula::default()), config).unwrap();
        let (plan, expected) = random_plan(&mut random, 30, 40);
        engine.submit(plan.clone()).unwrap();
        for (number, tokens) in expected.iter().enumerate() {
            let batch = next(&engine).unwrap();
            assert_eq!(&values(&batch, TokenType::I32), tokens);
            assert_eq!(borders(&batch), expected_borders(&plan, number));
        }
        assert!(engine.stats().unwrap().peak_bytes > 0);
    }
}
